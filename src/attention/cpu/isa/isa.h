// The tables that the files of isa/ export. Which of them a build has depends on its target;
// find_kernels() knows.
#pragma once

#include <string_view>

#include "attention/cpu/kernels.h"

namespace mla::attention::cpu {

extern const Kernels kPortableKernels;
extern const Kernels kNeonKernels;
extern const Kernels kNeonBf16Kernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;
extern const Kernels kAmxKernels;

// The table of that name where this build has it, else null. Whether the machine can run it is not
// asked.
const Kernels* find_kernels(std::string_view name);

}  // namespace mla::attention::cpu
