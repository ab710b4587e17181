// Kernels for AVX512_BF16: bf16 pairs multiplied into float32, tiles of 12 rows by 32 columns. P is
// rounded to bf16, its sum is not. Inputs of other types are the avx512 table's.
#include "attention/cpu/isa/avx512/vector.h"
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {
namespace {

struct Avx512Bf16 : Avx512Vector<Avx512Bf16> {
  static constexpr Index kMr = 12;
  static constexpr Index kNr = 32;
  static constexpr Index kPack = 2;
  using Element = BFloat16;

  using Avx512Vector::store;
  static void store(BFloat16* to, Vec a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), round_to_bf16(a));
  }
  static __m256i round_to_bf16(Vec a) { return (__m256i)_mm512_cvtneps_pbh(a); }
  static Vec round_pair(Vec even, Vec odd) {
    // Both in one instruction, the odd ones above; then interleaved.
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, halves));
  }
  static Vec multiply_add(__m512i a, __m512i b, Vec c) {
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
  }

  // Of an Emerald Rapids Xeon, where VDPBF16PS runs at half the rate of FMA.
  static constexpr Rates kRates = {.attend = 0.0300,
                                   .project = 0.0300,
                                   .latent_key = 150,
                                   .fold = 0.0300,
                                   .fold_key = 200,
                                   .few = 0.0172,
                                   .few_key = 130,
                                   .product = 0.031,
                                   .row_granule = 12};
};

}  // namespace

constexpr Kernels kAvx512Bf16Kernels = Table<Avx512Bf16>::kernels("avx512_bf16");

}  // namespace mla::attention::cpu
