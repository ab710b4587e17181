// The scratch memory of an operator: one block that all its plans share and that only grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>

namespace mla::prefill {

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

// Null when there is no memory. `bytes` may be 0.
inline AlignedBytes allocate_aligned(std::int64_t bytes) {
  return AlignedBytes(static_cast<std::byte*>(
      ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64}, std::nothrow)));
}

class Workspace {
 public:
  // False when there is no memory; then no plan of the operator can run until one fits again.
  bool reserve(std::int64_t bytes) {
    const std::lock_guard lock(turn_);
    if (bytes_ >= bytes) return true;
    data_.reset();  // first, so that the budget holds while growing as well
    data_ = allocate_aligned(bytes);
    bytes_ = data_ == nullptr ? 0 : bytes;
    return data_ != nullptr;
  }
  // Held by a run from begin to end; data() and bytes() are its to use meanwhile.
  std::unique_lock<std::mutex> take_turn() { return std::unique_lock(turn_); }
  std::byte* data() { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::mutex turn_;
  AlignedBytes data_;
  std::int64_t bytes_ = 0;
};

}  // namespace mla::prefill
