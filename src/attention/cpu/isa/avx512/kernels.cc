// Kernels for AVX-512 with FMA in float32: tiles of 12 rows by 32 columns, 24 of the 32 registers.
#include "attention/cpu/isa/avx512/vector.h"
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {
namespace {

struct Avx512 : Avx512Vector<Avx512> {
  static constexpr Index kMr = 12;
  static constexpr Index kNr = 32;
  static constexpr Index kPack = 1;
  using Element = float;

  static Vec multiply_add(__m512i a, __m512i b, Vec c) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), c);
  }
  static __m256i round_to_bf16(Vec a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i even_up =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, even_up, quiet), 16));
  }

  // Of an Emerald Rapids Xeon.
  static constexpr Rates kRates = {.attend = 0.0149,
                                   .project = 0.0149,
                                   .latent_key = 150,
                                   .fold = 0.0153,
                                   .fold_key = 290,
                                   .few = 0.0172,
                                   .few_key = 180,
                                   .product = 0.017,
                                   .row_granule = 12};
};

}  // namespace

constexpr Kernels kAvx512Kernels = Table<Avx512>::kernels("avx512");

}  // namespace mla::attention::cpu
