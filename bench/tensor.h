// Memory for inputs and results in any element type the rows take, filled from a fixed seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mla/core.h"

namespace mla::bench {

class Tensor {
 public:
  // 64-byte aligned, zeroed by the system. kOutOfMemory names `what`.
  static Result<Tensor> make(DType dtype, std::int64_t count, const char* what);

  DType dtype() const { return dtype_; }
  std::int64_t count() const { return count_; }
  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  double get(std::int64_t index) const;

  // Roughly normal numbers of the given standard deviation (four uniform ones added), the same for
  // the same seed on every machine.
  void fill(std::uint64_t seed, double deviation);
  // Root mean square of at most about a million elements, evenly spread.
  double rms() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  Tensor(DType dtype, std::int64_t count, std::byte* data)
      : dtype_(dtype), count_(count), data_(data) {}

  DType dtype_;
  std::int64_t count_;
  std::unique_ptr<std::byte, Free> data_;
};

// The distance between neighbouring numbers of the type at this value.
double ulp(DType dtype, double value);

}  // namespace mla::bench
