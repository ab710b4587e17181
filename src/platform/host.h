// The questions only the CPU and the OS can answer. Every #if on compiler, CPU or OS is in host.cc;
// what the answers mean is decided elsewhere, in functions that can be tested.
#pragma once

#include "platform/x86.h"

namespace mla::platform {

// Reads the registers and decodes them; asks the kernel for AMX where the CPU has it. Where nothing
// can be read, all is unknown.
CpuFacts host_cpu();
// CPUs in this thread's affinity mask; 0: unknown.
int affinity_mask_cpus();
// CPUs in all of OpenMP's places where it binds threads to them; 0: it does not.
int openmp_place_cpus();
// CPUs this process may use. An OpenMP that binds threads has narrowed the mask of the calling one
// to a place when the process started, and its other places are not to be lost for that.
int host_affinity();

}  // namespace mla::platform
