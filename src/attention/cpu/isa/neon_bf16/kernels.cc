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

  // 24 chains, more than latency times units.
  static float chains(long rounds) {
    asm volatile(
        "movi v24.4s, #0\n"
        "1:\n"
        ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
        "bfdot v\\r\\().4s, v24.8h, v24.8h\n"
        ".endr\n"
        "subs %0, %0, #1\nb.ne 1b\n"
        : "+r"(rounds)
        :
        : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
          "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24");
    return 0;
  }
  static constexpr Rates kRates = kUnmeasuredRates;

  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 24 * kLanes * 2, milliseconds);
  }
};

}  // namespace

constexpr Kernels kNeonBf16Kernels = Table<NeonBf16>::kernels("neon_bf16");

}  // namespace mla::attention::cpu
