// THE table of orders. Source: vLLM 0.32, get_mla_prefill_backend_cls of platforms/interface.py,
// rocm.py and cpu.py (Apache-2.0).
#include "selector/priority.h"

#include <array>

namespace mla {
namespace {

constexpr std::array<std::string_view, 2> kCpu = {"ZEN_CPU", "CPU"};
constexpr std::array<std::string_view, 2> kRocm = {"ROCM_AITER_FA", "FLASH_ATTN"};
// Capability unknown, and every capability but 10.x: 11.x and 12.x lack 10.x's instructions.
constexpr std::array<std::string_view, 1> kCuda = {"FLASH_ATTN"};
constexpr std::array<std::string_view, 4> kBlackwell = {"FLASH_ATTN", "TRTLLM_RAGGED", "FLASHINFER",
                                                        "TOKENSPEED_MLA"};
constexpr std::array<std::string_view, 4> kBlackwellGlm5 = {"TRTLLM_RAGGED", "FLASH_ATTN",
                                                            "FLASHINFER", "TOKENSPEED_MLA"};
constexpr MlaDims kGlm5Dims{192, 64, 256};

}  // namespace

std::span<const std::string_view> priority(const Platform& platform, const MlaDims& dims) {
  switch (platform.kind) {
    case DeviceKind::kCpu:
      return kCpu;
    case DeviceKind::kRocm:
      return kRocm;
    case DeviceKind::kCuda:
      break;
  }
  if (!platform.capability || platform.capability->major != 10) return kCuda;
  if (dims == kGlm5Dims) return kBlackwellGlm5;
  return kBlackwell;
}

}  // namespace mla
