// float16 and bfloat16 as values, converted in plain integer arithmetic: round to nearest even,
// subnormals kept whatever the flush-to-zero mode, NaN stays NaN.
//
// Everything has internal linkage and calls nothing, so that a file compiled for one instruction
// set shares no symbol with a file compiled for another.
#pragma once

#include <cstdint>

namespace mla {

struct Float16 {
  std::uint16_t bits;
};

struct BFloat16 {
  std::uint16_t bits;
};

static inline float to_float(float value) { return value; }

static inline float to_float(BFloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

static inline float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  // Exponents move from a bias of 15 to one of 127; a subnormal is an integer times 2^-24.
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const std::uint32_t small =
      __builtin_bit_cast(std::uint32_t, static_cast<float>(magnitude & 0x3ffu) * 0x1p-24f);
  const std::uint32_t chosen =
      magnitude >= 0x7c00u ? special : (magnitude < 0x0400u ? small : normal);
  return __builtin_bit_cast(float, sign | chosen);
}

static inline void from_float(float value, float* out) { *out = value; }

static inline void from_float(float value, BFloat16* out) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  out->bits = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline void from_float(float value, Float16* out) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // A carry out of the mantissa is the next exponent, up to infinity from 65520 on.
  const std::uint32_t carried = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  const std::uint32_t normal = magnitude >= 0x47800000u ? 0x7c00u : (carried - (112u << 23)) >> 13;
  // Below 2^-14 the last place is 2^-24, which is that of 0.5: adding it rounds where wanted.
  const std::uint32_t half = 0x3f000000u;
  const std::uint32_t tiny = magnitude < 0x38800000u ? magnitude : 0u;
  const std::uint32_t small =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, tiny) + 0.5f) - half;
  const std::uint32_t quiet = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const std::uint32_t chosen =
      magnitude > 0x7f800000u ? quiet : (magnitude < 0x38800000u ? small : normal);
  out->bits = static_cast<std::uint16_t>(sign | chosen);
}

}  // namespace mla
