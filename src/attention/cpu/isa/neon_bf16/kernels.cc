// Kernels for arm64 with BFDOT (FEAT_BF16): bf16 pairs multiplied into float32. P is rounded to
// bf16, its sum is not. Inputs of other types are the neon table's. BFDOT rounds its sums to odd
// and takes subnormals for 0 (Arm ARM, BFDotAdd), which the contract's bounds leave room for.
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/isa/neon/vector.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {
namespace {

struct NeonBf16 : NeonVector<NeonBf16> {
  static constexpr Index kPack = 2;
  using Element = BFloat16;

  using NeonVector::store;
  static void store(BFloat16* to, Vec a) {
    vst1_u8(reinterpret_cast<std::uint8_t*>(to), vreinterpret_u8_u16(round_to_bf16(a)));
  }
  static uint16x4_t round_to_bf16(Vec a) { return vreinterpret_u16_bf16(vcvt_bf16_f32(a)); }
  static Vec round_pair(Vec even, Vec odd) {
    const uint16x4_t low = round_to_bf16(even);
    const uint16x4_t high = round_to_bf16(odd);
    return vreinterpretq_f32_u16(vcombine_u16(vzip1_u16(low, high), vzip2_u16(low, high)));
  }
  template <int kLane>
  static Vec multiply_add(Vec column, Vec a, Vec c) {
    return vbfdotq_laneq_f32(c, vreinterpretq_bf16_f32(column), vreinterpretq_bf16_f32(a), kLane);
  }

  static constexpr Rates kRates = kUnmeasuredRates;
};

}  // namespace

constexpr Kernels kNeonBf16Kernels = Table<NeonBf16>::kernels("neon_bf16");

}  // namespace mla::attention::cpu
