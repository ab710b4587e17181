// What the AVX-512 Isa types share: 16 lanes of floats and their conversions.
#pragma once

#include <immintrin.h>

#include "attention/cpu/exp2.h"
#include "attention/cpu/isa/avx512/tile.h"
#include "attention/cpu/panels.h"
#include "attention/cpu/probe.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct Avx512Vector : Blocks {
  static constexpr Index kLanes = 16;
  using Vec = __m512;

  static Vec set(float x) { return _mm512_set1_ps(x); }
  static Vec load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vec a) { _mm512_storeu_ps(to, a); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }  // b where either is NaN
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static float sum(Vec a) { return _mm512_reduce_add_ps(a); }
  static float maximum(Vec a) { return _mm512_reduce_max_ps(a); }
  static Vec exponent_from_low_bits(Vec a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23));
  }
  static Vec exp2(Vec x) { return exp2_by_polynomial<Isa>(x); }

  template <DType D>
  static Vec load_as_float(const char* from) {
    if constexpr (D == DType::kFloat32) {
      return _mm512_loadu_ps(from);
    } else {
      const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      if constexpr (D == DType::kFloat16) return _mm512_cvtph_ps(half);
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
    }
  }
  template <DType D>
  static void store_as(char* to, Vec a) {
    if constexpr (D == DType::kFloat32) {
      _mm512_storeu_ps(to, a);
    } else if constexpr (D == DType::kFloat16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), Isa::round_to_bf16(a));
    }
  }

  static void transpose(Vec (&v)[16]) {
    Vec t[16];
    for (int i = 0; i < 16; i += 4) {  // 4x4 blocks within lanes of 128 bits
      const Vec a = _mm512_unpacklo_ps(v[i], v[i + 1]);
      const Vec b = _mm512_unpackhi_ps(v[i], v[i + 1]);
      const Vec c = _mm512_unpacklo_ps(v[i + 2], v[i + 3]);
      const Vec d = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
      t[i] = _mm512_shuffle_ps(a, c, 0x44);
      t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
      t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
      t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    for (int i = 0; i < 4; ++i) {  // lane l of t[4 g + i] is column 4 l + i of rows 4 g..4 g + 3
      const Vec a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
      const Vec b = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
      const Vec c = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
      const Vec d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
      v[i] = _mm512_shuffle_f32x4(a, b, 0x88);
      v[i + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
      v[i + 4] = _mm512_shuffle_f32x4(c, d, 0x88);
      v[i + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
  }

  // 24 chains, more than latency times units.
  static float chains(long rounds) {
    asm volatile(
        "vpxord %%zmm24, %%zmm24, %%zmm24\n"
        "1:\n"
        ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
        ".if %c[pairs]\n"
        "vdpbf16ps %%zmm24, %%zmm24, %%zmm\\r\n"
        ".else\n"
        "vfmadd231ps %%zmm24, %%zmm24, %%zmm\\r\n"
        ".endif\n"
        ".endr\n"
        "dec %[rounds]\njnz 1b\n"
        : [rounds] "+r"(rounds)
        : [pairs] "i"(Isa::kPack - 1)
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
          "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",
          "xmm20", "xmm21", "xmm22", "xmm23", "xmm24");
    return 0;
  }
  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 24 * kLanes * Isa::kPack, milliseconds);
  }

  // Tiles of any number of rows up to 12.
  template <bool kAdd, class Element>
  static void multiply(Index rows, const Product<Element>& product) {
    if (rows >= 12) return multiply_tile_12x32(product, kAdd);
    with_rows<11>(rows, [&](auto n) { multiply_rows<kAdd, n.kRows>(product); });
  }

  // The first half of a tile's columns, kMr rows: what the diagonal leaves of a group of keys.
  template <class Element>
  static void multiply_half(const Product<Element>& product) {
    constexpr int kRows = 12;
    constexpr Index kStep = 32 * Isa::kPack;
    Vec c[kRows];
    for (int r = 0; r < kRows; ++r) c[r] = _mm512_setzero_ps();
    const Element* a = product.a;
    const Element* b = product.b;
    for (Index k = 0; k < product.steps; ++k, a += Isa::kPack, b += kStep) {
      const __m512i columns = _mm512_loadu_si512(b);
      __builtin_prefetch(b + 8 * kStep);
      for (int r = 0; r < kRows; ++r) {
        std::int32_t word;
        memcpy(&word, a + r * product.a_stride, sizeof(word));
        c[r] = Isa::multiply_add(_mm512_set1_epi32(word), columns, c[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(product.c + r * product.c_stride, c[r]);
  }

  template <bool kAdd, int kRows, class Element>
  static void multiply_rows(const Product<Element>& product) {
    constexpr Index kStep = 32 * Isa::kPack;
    Vec c[kRows][2];
    for (int r = 0; r < kRows; ++r) c[r][0] = c[r][1] = _mm512_setzero_ps();
    const Element* a = product.a;
    const Element* b = product.b;
    for (Index k = 0; k < product.steps; ++k, a += Isa::kPack, b += kStep) {
      const __m512i b0 = _mm512_loadu_si512(b);
      const __m512i b1 = _mm512_loadu_si512(b + kStep / 2);
      for (int r = 0; r < kRows; ++r) {
        std::int32_t word;
        memcpy(&word, a + r * product.a_stride, sizeof(word));
        const __m512i x = _mm512_set1_epi32(word);
        c[r][0] = Isa::multiply_add(x, b0, c[r][0]);
        c[r][1] = Isa::multiply_add(x, b1, c[r][1]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* const to = product.c + r * product.c_stride;
      if constexpr (kAdd) {
        c[r][0] = _mm512_add_ps(c[r][0], _mm512_loadu_ps(to));
        c[r][1] = _mm512_add_ps(c[r][1], _mm512_loadu_ps(to + 16));
      }
      _mm512_storeu_ps(to, c[r][0]);
      _mm512_storeu_ps(to + 16, c[r][1]);
    }
  }
};

}  // namespace
}  // namespace mla::attention::cpu
