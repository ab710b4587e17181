// Kernels for arm64 with NEON in float32, which every arm64 CPU has.
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/isa/neon/vector.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {
namespace {

struct Neon : NeonVector<Neon> {
  static constexpr Index kPack = 1;
  using Element = float;

  template <int kLane>
  static Vec multiply_add(Vec column, Vec a, Vec c) {
    return vfmaq_laneq_f32(c, column, a, kLane);
  }
  static uint16x4_t round_to_bf16(Vec a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t even_up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), even_up, quiet), 16);
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
  static constexpr Rates kRates = kUnmeasuredRates;

  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 24 * kLanes, milliseconds);
  }
};

}  // namespace

constexpr Kernels kNeonKernels = Table<Neon>::kernels("neon");

}  // namespace mla::attention::cpu
