// Kernels for arm64 with NEON: tiles of 6 rows by 16 columns, 24 of the 32 registers; 6 more hold
// four steps of A, whose lanes the multiply-adds take directly.
#include <arm_neon.h>

#include "attention/cpu/exp2.h"
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/probe.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {
namespace {

struct Neon {
  static constexpr Index kLanes = 4;
  static constexpr Index kMr = 6;
  static constexpr Index kNr = 16;
  static constexpr Index kPack = 1;
  static constexpr Index kBlockQ = 96;
  static constexpr Index kStrip = 24;
  static constexpr Index kMaxBlockK = 256;
  static constexpr Index kPanelBytes = 384 * 1024;
  using Element = float;
  using Vec = float32x4_t;

  static Vec set(float x) { return vdupq_n_f32(x); }
  static Vec load(const float* from) { return vld1q_f32(from); }
  static void store(float* to, Vec a) { vst1q_f32(to, a); }
  static Vec add(Vec a, Vec b) { return vaddq_f32(a, b); }
  static Vec sub(Vec a, Vec b) { return vsubq_f32(a, b); }
  static Vec mul(Vec a, Vec b) { return vmulq_f32(a, b); }
  static Vec max(Vec a, Vec b) { return vmaxq_f32(a, b); }  // NaN where either is NaN
  static Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
  static Vec scale(Vec a, Vec b, Vec c) { return fma(a, b, c); }  // rounded once
  static float sum(Vec a) { return vaddvq_f32(a); }
  static float maximum(Vec a) { return vmaxvq_f32(a); }
  static Vec exponent_from_low_bits(Vec a) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23));
  }
  static Vec exp2(Vec x) { return exp2_by_polynomial<Neon>(x); }

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
          D == DType::kFloat16 ? vreinterpret_u16_f16(vcvt_f16_f32(a)) : round_to_bf16(a);
      vst1_u8(reinterpret_cast<std::uint8_t*>(to), vreinterpret_u8_u16(half));
    }
  }
  static uint16x4_t round_to_bf16(Vec a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t even_up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), even_up, quiet), 16);
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

  template <bool kAdd>
  static void multiply(Index rows, const Product<float>& product) {
    switch (rows) {
      case 1:
        return multiply_rows<kAdd, 1>(product);
      case 2:
        return multiply_rows<kAdd, 2>(product);
      case 3:
        return multiply_rows<kAdd, 3>(product);
      case 4:
        return multiply_rows<kAdd, 4>(product);
      case 5:
        return multiply_rows<kAdd, 5>(product);
      default:
        return multiply_rows<kAdd, 6>(product);
    }
  }

  // One step of the inner dimension: lane kLane of every row's A.
  template <int kLane, int kRows>
  static void step(const Vec (&a)[kRows], const float* b, Vec (&c)[kRows][4]) {
    for (int j = 0; j < 4; ++j) {
      const Vec column = vld1q_f32(b + 4 * j);
      for (int r = 0; r < kRows; ++r) c[r][j] = vfmaq_laneq_f32(c[r][j], column, a[r], kLane);
    }
  }

  template <bool kAdd, int kRows>
  static void multiply_rows(const Product<float>& product) {
    Vec c[kRows][4];
    Vec a[kRows];
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < 4; ++j) c[r][j] = vdupq_n_f32(0);
    }
    const float* b = product.b;
    Index k = 0;
    for (; k + 4 <= product.steps; k += 4, b += 4 * kNr) {
      for (int r = 0; r < kRows; ++r) a[r] = vld1q_f32(product.a + r * product.a_stride + k);
      __builtin_prefetch(b + 16 * kNr);
      __builtin_prefetch(b + 18 * kNr);
      step<0>(a, b, c);
      step<1>(a, b + kNr, c);
      step<2>(a, b + 2 * kNr, c);
      step<3>(a, b + 3 * kNr, c);
    }
    for (; k < product.steps; ++k, b += kNr) {
      for (int r = 0; r < kRows; ++r) a[r] = vld1q_dup_f32(product.a + r * product.a_stride + k);
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

  // 24 chains, more than latency times units.
  static float chains(long rounds) {
    asm volatile(
        "movi v24.4s, #0\n"
        "1:\n"
        ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
        "fmla v\\r\\().4s, v24.4s, v24.4s\n"
        ".endr\n"
        "subs %0, %0, #1\nb.ne 1b\n"
        : "+r"(rounds)
        :
        : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
          "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24");
    return 0;
  }
  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 24 * kLanes, milliseconds);
  }
};

}  // namespace

constexpr Kernels kNeonKernels = Table<Neon>::kernels("neon");

}  // namespace mla::attention::cpu
