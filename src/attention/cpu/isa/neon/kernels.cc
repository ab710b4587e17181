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

  static constexpr Rates kRates = kUnmeasuredRates;
};

}  // namespace

constexpr Kernels kNeonKernels = Table<Neon>::kernels("neon");

}  // namespace mla::attention::cpu
