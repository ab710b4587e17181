// How far sizes may go, and the words of an argument that is wrong.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "mla/core.h"

namespace mla::prefill {

// With these the products of any three sizes that are multiplied fit 64 bits.
inline constexpr std::int64_t kMaxDim = 2048;  // of a head dimension, or L
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 16;
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;  // of new tokens, of a context
inline constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;  // block tables are int32
inline constexpr std::int64_t kMaxBlockSize = std::int64_t{1} << 30;

inline Error invalid(std::string_view field, std::string message) {
  return {ErrorCode::kInvalidArgument, std::string(field), std::move(message)};
}

inline Error out_of_range(std::string_view field, std::int64_t value, std::int64_t low,
                          std::int64_t high) {
  return invalid(field, fmt::format("{} is {}; wanted {} to {}", field, value, low, high));
}

inline bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

inline Error wrong_dtype(std::string_view field, DType dtype) {
  return invalid(
      field, fmt::format("{} is {}; wanted float32, float16 or bfloat16", field, mla::name(dtype)));
}

}  // namespace mla::prefill
