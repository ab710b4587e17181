// Kernels for AVX2 with FMA and F16C: tiles of 6 rows by 16 columns, 12 of the 16 registers.
#include <immintrin.h>

#include "attention/cpu/exp2.h"
#include "attention/cpu/isa/avx2/tile.h"
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/probe.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {
namespace {

struct Avx2 : Blocks {
  static constexpr Index kLanes = 8;
  static constexpr Index kMr = 6;
  static constexpr Index kNr = 16;
  static constexpr Index kPack = 1;
  using Element = float;
  using Vec = __m256;

  static Vec set(float x) { return _mm256_set1_ps(x); }
  static Vec load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Vec a) { _mm256_storeu_ps(to, a); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }  // b where either is NaN
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static float sum(Vec a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  static float maximum(Vec a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  static Vec exponent_from_low_bits(Vec a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
  }
  static Vec exp2(Vec x) { return exp2_by_polynomial<Avx2>(x); }

  template <DType D>
  static Vec load_as_float(const char* from) {
    if constexpr (D == DType::kFloat32) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
    } else {
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      if constexpr (D == DType::kFloat16) return _mm256_cvtph_ps(half);
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
    }
  }

  template <DType D>
  static void store_as(char* to, Vec a) {
    if constexpr (D == DType::kFloat32) {
      _mm256_storeu_ps(reinterpret_cast<float*>(to), a);
    } else if constexpr (D == DType::kFloat16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                       _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
    } else {
      const __m256i bits = _mm256_castps_si256(a);
      const __m256i quiet =
          _mm256_srli_epi32(_mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), 16);
      const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
      const __m256i high = _mm256_blendv_epi8(nearest(a), quiet, nan);
      const __m256i packed = _mm256_packus_epi32(high, high);
      const __m256i ordered = _mm256_permute4x64_epi64(packed, 0x08);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(ordered));
    }
  }

  // Both as one bfloat16 vector: the shuffles once for two, and NaN looked for before it is kept.
  template <DType D>
  requires(D == DType::kBFloat16) static void store_two_as(char* to, Vec a, Vec b) {
    if (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0) {
      store_as<D>(to, a);
      store_as<D>(to + 16, b);
      return;
    }
    const __m256i packed = _mm256_packus_epi32(nearest(a), nearest(b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  // The bits of the nearest bfloat16, ties to even, of a number; of a NaN, anything.
  static __m256i nearest(Vec a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  }

  static void transpose(Vec (&v)[8]) {
    Vec pairs[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    Vec quads[8];  // columns c and c + 4 of rows 0..3 (first half) and 4..7
    for (int half = 0; half < 8; half += 4) {
      quads[half] = _mm256_shuffle_ps(pairs[half], pairs[half + 2], 0x44);
      quads[half + 1] = _mm256_shuffle_ps(pairs[half], pairs[half + 2], 0xee);
      quads[half + 2] = _mm256_shuffle_ps(pairs[half + 1], pairs[half + 3], 0x44);
      quads[half + 3] = _mm256_shuffle_ps(pairs[half + 1], pairs[half + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
      v[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
  }

  template <bool kAdd>
  static void multiply(Index rows, const Product<float>& product) {
    if (rows >= 6) return multiply_tile_6x16(product, kAdd);
    with_rows<5>(rows, [&](auto n) { multiply_rows<kAdd, n.kRows>(product); });
  }

  template <bool kAdd, int kRows>
  static void multiply_rows(const Product<float>& product) {
    Vec c[kRows][2];
    for (int r = 0; r < kRows; ++r) c[r][0] = c[r][1] = _mm256_setzero_ps();
    const float* a = product.a;
    const float* b = product.b;
    for (Index k = 0; k < product.steps; ++k, ++a, b += kNr) {
      const Vec b0 = _mm256_loadu_ps(b);
      const Vec b1 = _mm256_loadu_ps(b + 8);
      for (int r = 0; r < kRows; ++r) {
        const Vec x = _mm256_broadcast_ss(a + r * product.a_stride);
        c[r][0] = _mm256_fmadd_ps(x, b0, c[r][0]);
        c[r][1] = _mm256_fmadd_ps(x, b1, c[r][1]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* const to = product.c + r * product.c_stride;
      if constexpr (kAdd) {
        c[r][0] = _mm256_add_ps(c[r][0], _mm256_loadu_ps(to));
        c[r][1] = _mm256_add_ps(c[r][1], _mm256_loadu_ps(to + 8));
      }
      _mm256_storeu_ps(to, c[r][0]);
      _mm256_storeu_ps(to + 8, c[r][1]);
    }
  }

  static float chains(long rounds) {
    Vec c0 = set(0), c1 = set(1), c2 = set(2), c3 = set(3), c4 = set(4), c5 = set(5), c6 = set(6),
        c7 = set(7), c8 = set(8), c9 = set(9), c10 = set(10), c11 = set(11);
    const Vec a = set(0.999f);
    for (long n = 0; n < rounds; ++n) {
      asm volatile(
          "vfmadd213ps %12, %12, %0\n vfmadd213ps %12, %12, %1\n vfmadd213ps %12, %12, %2\n"
          "vfmadd213ps %12, %12, %3\n vfmadd213ps %12, %12, %4\n vfmadd213ps %12, %12, %5\n"
          "vfmadd213ps %12, %12, %6\n vfmadd213ps %12, %12, %7\n vfmadd213ps %12, %12, %8\n"
          "vfmadd213ps %12, %12, %9\n vfmadd213ps %12, %12, %10\n vfmadd213ps %12, %12, %11\n"
          : "+x"(c0), "+x"(c1), "+x"(c2), "+x"(c3), "+x"(c4), "+x"(c5), "+x"(c6), "+x"(c7),
            "+x"(c8), "+x"(c9), "+x"(c10), "+x"(c11)
          : "x"(a));
    }
    const Vec low = add(add(add(c0, c1), add(c2, c3)), add(c4, c5));
    return sum(add(low, add(add(add(c6, c7), add(c8, c9)), add(c10, c11))));
  }
  // Of an Emerald Rapids Xeon.
  static constexpr Rates kRates = {.attend = 0.0263,
                                   .project = 0.0250,
                                   .latent_key = 150,
                                   .fold = 0.0257,
                                   .fold_key = 290,
                                   .few = 0.0258,
                                   .few_key = 215,
                                   .product = 0.030,
                                   .row_granule = 6};
  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 12 * kLanes, milliseconds);
  }
};

}  // namespace

constexpr Kernels kAvx2Kernels = Table<Avx2>::kernels("avx2");

}  // namespace mla::attention::cpu
