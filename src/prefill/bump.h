// Cuts a worker's memory into pieces; the same calls with no memory count the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "prefill/geometry.h"

namespace mla::prefill {

class Bump {
 public:
  explicit Bump(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += align64(count * static_cast<std::int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(piece);
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace mla::prefill
