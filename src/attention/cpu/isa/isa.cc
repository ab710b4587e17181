// Which tables this build has: a file of isa/ is compiled only for its own architecture.
#include "attention/cpu/isa/isa.h"

namespace mla::attention::cpu {
namespace {

// Each table runs wherever the ones before it of its architecture run.
constexpr const Kernels* kTables[] = {
#if defined(__x86_64__)
    &kAmxKernels,      &kAvx512Bf16Kernels, &kAvx512Kernels, &kAvx2Kernels,
#elif defined(__aarch64__)
    &kNeonBf16Kernels,
    &kNeonKernels,
#endif
    &kPortableKernels,
};

}  // namespace

const Kernels* find_kernels(std::string_view name) {
  for (const Kernels* table : kTables) {
    if (name == table->name) return table;
  }
  return nullptr;
}

const Kernels& kernels_for(const Kernels& table, const Shape& shape) {
  bool reached = false;
  for (const Kernels* candidate : kTables) {
    reached = reached || candidate == &table;
    if (reached && candidate->supports(shape)) return *candidate;
  }
  return table;
}

const Kernels& product_kernels_for(const Kernels& table) {
  bool reached = false;
  for (const Kernels* candidate : kTables) {
    reached = reached || candidate == &table;
    if (reached && candidate->multiply != nullptr && candidate->few_rows > 0) return *candidate;
  }
  return kPortableKernels;
}

}  // namespace mla::attention::cpu
