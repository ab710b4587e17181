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

// The table itself where it supports the shape, else the next simpler one that does: what it needs
// of the machine is a part of what the table needs.
const Kernels& kernels_for(const Kernels& table, const Shape& shape);

// The same for what the absorbed form needs beside attention and not every table has: products and
// steps over few rows.
const Kernels& product_kernels_for(const Kernels& table);

}  // namespace mla::attention::cpu
