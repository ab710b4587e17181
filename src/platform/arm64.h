// What Linux says of an arm64 CPU (the auxiliary vector and MIDR_EL1), decoded by a pure function.
// Bits: Linux arch/arm64/include/uapi/asm/hwcap.h; Arm ARM, MIDR_EL1.
#pragma once

#include <cstdint>

#include "platform/x86.h"

namespace mla::platform {

struct Arm64Registers {
  std::uint64_t hwcap = 0;
  std::uint64_t hwcap2 = 0;
  std::uint64_t midr = 0;  // 0: not readable
};

CpuFacts decode_arm64(const Arm64Registers& registers);

}  // namespace mla::platform
