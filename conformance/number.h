// Element types as bits, by their definition: written for clarity and independent of the library's
// own conversions, which it serves to check.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "mla/core.h"

namespace mla::conformance {

struct Format {
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number
  int max_exponent;
};

inline Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {10, -14, 15};
    case DType::kBFloat16:
      return {7, -126, 127};
    default:
      return {23, -126, 127};
  }
}

// 2^exponent, for exponents of normal doubles.
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// The distance to the next number of the type above |value|.
inline double ulp(DType dtype, double value) {
  const Format format = format_of(dtype);
  const int biased = static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ff);
  return power_of_two(std::max(biased - 1023, format.min_exponent) - format.mantissa_bits);
}

// The nearest number of the type, ties to even.
inline double round_to(DType dtype, double value) {
  if (!std::isfinite(value) || value == 0.0) return value;
  const double step = ulp(dtype, value);
  const double rounded = std::nearbyint(value / step) * step;
  const Format format = format_of(dtype);
  const double limit = power_of_two(format.max_exponent + 1);
  if (std::fabs(rounded) < limit) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

inline double load(DType dtype, const std::byte* from) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  if (dtype == DType::kBFloat16) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

inline void store(DType dtype, double value, std::byte* to) {
  const double rounded = round_to(dtype, value);
  if (dtype == DType::kFloat32) {
    const auto narrow = static_cast<float>(rounded);
    std::memcpy(to, &narrow, sizeof(narrow));
    return;
  }
  std::uint16_t bits = 0;
  if (dtype == DType::kBFloat16) {
    bits =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(rounded)) >> 16);
  } else if (std::isnan(rounded)) {
    bits = 0x7e00;
  } else {
    const double magnitude = std::fabs(rounded);
    int exponent = 0;
    double mantissa = 0;
    if (std::isinf(rounded)) {
      exponent = 31;
    } else if (magnitude < 0x1p-14) {
      mantissa = magnitude * 0x1p24;
    } else {
      exponent = std::ilogb(magnitude) + 15;
      mantissa = std::ldexp(magnitude, 25 - exponent) - 1024;
    }
    bits = static_cast<std::uint16_t>((std::signbit(rounded) ? 0x8000 : 0) | exponent << 10 |
                                      static_cast<int>(mantissa));
  }
  std::memcpy(to, &bits, sizeof(bits));
}

}  // namespace mla::conformance
