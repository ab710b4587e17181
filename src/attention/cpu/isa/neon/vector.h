// What the NEON Isa types share: 4 lanes of floats, their conversions, and tiles of fewer rows than
// the full one of tile.h. A step of the inner dimension is a word of A: a float or a pair of bf16.
#pragma once

#include <arm_neon.h>

#include "attention/cpu/exp2.h"
#include "attention/cpu/isa/neon/tile.h"
#include "attention/cpu/panels.h"
#include "attention/cpu/probe.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct NeonVector : Blocks {
  static constexpr Index kLanes = 4;
  static constexpr Index kMr = 6;
  static constexpr Index kNr = 16;
  using Vec = float32x4_t;

  static Vec set(float x) { return vdupq_n_f32(x); }
  static Vec load(const float* from) { return vld1q_f32(from); }
  static void store(float* to, Vec a) { vst1q_f32(to, a); }
  static Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
  static Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
  static Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
  static Vec max(Vec a, Vec b) { return vmaxq_f32(a, b); }  // NaN where either is NaN
  static Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
  static float sum(Vec a) { return vaddvq_f32(a); }
  static float maximum(Vec a) { return vmaxvq_f32(a); }
  static Vec exponent_from_low_bits(Vec a) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23));
  }
  static Vec exp2(Vec x) { return exp2_by_polynomial<Isa>(x); }

  template <DType D>
  static Vec load_as_float(const char* from) {
    if constexpr (D == DType::kFloat32) {
      return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(from)));
    } else {
      const uint16x4_t half =
          vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const std::uint8_t*>(from)));
      if constexpr (D == DType::kFloat16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
      return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
    }
  }

  template <DType D>
  static void store_as(char* to, Vec a) {
    if constexpr (D == DType::kFloat32) {
      vst1q_u8(reinterpret_cast<std::uint8_t*>(to), vreinterpretq_u8_f32(a));
    } else {
      const uint16x4_t half =
          D == DType::kFloat16 ? vreinterpret_u16_f16(vcvt_f16_f32(a)) : Isa::round_to_bf16(a);
      vst1_u8(reinterpret_cast<std::uint8_t*>(to), vreinterpret_u8_u16(half));
    }
  }
  static void transpose(Vec (&v)[4]) {
    const Vec a = vzip1q_f32(v[0], v[2]);
    const Vec b = vzip2q_f32(v[0], v[2]);
    const Vec c = vzip1q_f32(v[1], v[3]);
    const Vec d = vzip2q_f32(v[1], v[3]);
    v[0] = vzip1q_f32(a, c);
    v[1] = vzip2q_f32(a, c);
    v[2] = vzip1q_f32(b, d);
    v[3] = vzip2q_f32(b, d);
  }

  static Vec load_words(const char* from) {
    return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(from)));
  }
  static Vec set_word(const char* from) {
    std::uint32_t word;
    memcpy(&word, from, sizeof(word));
    return vreinterpretq_f32_u32(vdupq_n_u32(word));
  }

  // 24 chains, more than latency times units.
  static float chains(long rounds) {
    asm volatile(
        "movi v24.4s, #0\n"
        "1:\n"
        ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
        ".if %c[pairs]\n"
        "bfdot v\\r\\().4s, v24.8h, v24.8h\n"
        ".else\n"
        "fmla v\\r\\().4s, v24.4s, v24.4s\n"
        ".endif\n"
        ".endr\n"
        "subs %[rounds], %[rounds], #1\nb.ne 1b\n"
        : [rounds] "+r"(rounds)
        : [pairs] "i"(Isa::kPack - 1)
        : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
          "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24");
    return 0;
  }

  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 24 * kLanes * Isa::kPack, milliseconds);
  }

  template <bool kAdd, class Element>
  static void multiply(Index rows, const Product<Element>& product) {
    if (rows >= 6) return multiply_tile_6x16(product, kAdd);
    with_rows<5>(rows, [&](auto n) { multiply_rows<kAdd, n.kRows>(product); });
  }

  // One step of the inner dimension: word kLane of every row's A.
  template <int kLane, int kRows>
  static void step(const Vec (&a)[kRows], const char* b, Vec (&c)[kRows][4]) {
    for (int j = 0; j < 4; ++j) {
      const Vec column = load_words(b + 16 * j);
      for (int r = 0; r < kRows; ++r) {
        c[r][j] = Isa::template multiply_add<kLane>(column, a[r], c[r][j]);
      }
    }
  }

  template <bool kAdd, int kRows, class Element>
  static void multiply_rows(const Product<Element>& product) {
    constexpr Index kStep = kNr * 4;  // bytes of B
    const Index a_stride = product.a_stride * Index{sizeof(Element)};
    const char* a_at = reinterpret_cast<const char*>(product.a);
    const char* b = reinterpret_cast<const char*>(product.b);
    Vec c[kRows][4];
    Vec a[kRows];
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < 4; ++j) c[r][j] = vdupq_n_f32(0);
    }
    Index k = 0;
    for (; k + 4 <= product.steps; k += 4, a_at += 16, b += 4 * kStep) {
      for (int r = 0; r < kRows; ++r) a[r] = load_words(a_at + r * a_stride);
      __builtin_prefetch(b + 16 * kStep);
      __builtin_prefetch(b + 18 * kStep);
      step<0>(a, b, c);
      step<1>(a, b + kStep, c);
      step<2>(a, b + 2 * kStep, c);
      step<3>(a, b + 3 * kStep, c);
    }
    for (; k < product.steps; ++k, a_at += 4, b += kStep) {
      for (int r = 0; r < kRows; ++r) a[r] = set_word(a_at + r * a_stride);
      step<0>(a, b, c);
    }
    for (int r = 0; r < kRows; ++r) {
      float* const to = product.c + r * product.c_stride;
      for (int j = 0; j < 4; ++j) {
        if constexpr (kAdd) c[r][j] = vaddq_f32(vld1q_f32(to + 4 * j), c[r][j]);
        vst1q_f32(to + 4 * j, c[r][j]);
      }
    }
  }
};

}  // namespace
}  // namespace mla::attention::cpu
