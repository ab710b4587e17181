// Single elements and rows of the three float types, where speed does not matter.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/half.h"
#include "mla/core.h"

namespace mla::prefill {

inline float load(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kFloat16:
      return to_float(static_cast<const Float16*>(data)[i]);
    case DType::kBFloat16:
      return to_float(static_cast<const BFloat16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

inline void store(float value, void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kFloat16:
      return from_float(value, static_cast<Float16*>(data) + i);
    case DType::kBFloat16:
      return from_float(value, static_cast<BFloat16*>(data) + i);
    default:
      static_cast<float*>(data)[i] = value;
  }
}

// Rounds where the target is narrower.
inline void convert_row(const void* from, DType from_dtype, void* to, DType to_dtype,
                        std::int64_t count) {
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size_of(to_dtype)));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) store(load(from, from_dtype, i), to, to_dtype, i);
}

// Element i of an array of this dtype.
inline const void* at(const void* data, DType dtype, std::int64_t i) {
  return static_cast<const char*>(data) + i * size_of(dtype);
}
inline void* at(void* data, DType dtype, std::int64_t i) {
  return static_cast<char*>(data) + i * size_of(dtype);
}

}  // namespace mla::prefill
