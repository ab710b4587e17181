// The questions only the CPU and the OS can answer. Every #if on compiler, CPU or OS is in host.cc;
// what the answers mean is decided elsewhere, in functions that can be tested.
#pragma once

#include "platform/x86.h"

namespace mla::platform {

// Reads the registers and decodes them; asks the kernel for AMX where the CPU has it. Where nothing
// can be read, all is unknown.
CpuFacts host_cpu();
// CPUs in this thread's affinity mask; 0: unknown.
int host_affinity();

}  // namespace mla::platform
