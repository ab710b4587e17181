// Kernels in plain C++, for any machine.
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/isa/portable/lanes.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {

constexpr Kernels kPortableKernels = Table<Lanes<4, 4, 8, false>>::kernels("portable");

}  // namespace mla::attention::cpu
