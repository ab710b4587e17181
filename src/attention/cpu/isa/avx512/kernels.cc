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
  static constexpr Index kBlockQ = 96;
  static constexpr Index kStrip = 24;
  static constexpr Index kMaxBlockK = 256;
  static constexpr Index kPanelBytes = 384 * 1024;
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

  // 24 chains, more than latency times units.
  static float chains(long rounds) {
    asm volatile(
        "vpxord %%zmm24, %%zmm24, %%zmm24\n"
        "1:\n"
        ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
        "vfmadd231ps %%zmm24, %%zmm24, %%zmm\\r\n"
        ".endr\n"
        "dec %0\njnz 1b\n"
        : "+r"(rounds)
        :
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
          "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",
          "xmm20", "xmm21", "xmm22", "xmm23", "xmm24");
    return 0;
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
  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 24 * kLanes, milliseconds);
  }
};

}  // namespace

constexpr Kernels kAvx512Kernels = Table<Avx512>::kernels("avx512");

}  // namespace mla::attention::cpu
