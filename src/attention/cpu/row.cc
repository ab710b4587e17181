// The CPU rows' implementations.
#include "attention/cpu/row.h"

#include "attention/cpu/engine.h"
#include "attention/cpu/isa/isa.h"

namespace mla::attention::cpu {
namespace {

class CpuImplementation final : public Implementation {
 public:
  explicit CpuImplementation(const Kernels& kernels) : kernels_(kernels) {}

  Status attend(const Args& args, const RunOptions& options) const override {
    const Shape shape = {args.dtype, args.qk_head_dim, args.v_head_dim};
    return cpu::attend(kernels_for(kernels_, shape), args, options);
  }
  const Kernels* kernels() const override { return &kernels_; }

 private:
  const Kernels& kernels_;
};

}  // namespace

std::shared_ptr<const Implementation> make_implementation(std::string_view isa) {
  const Kernels* const kernels = find_kernels(isa);
  return kernels != nullptr ? std::make_shared<CpuImplementation>(*kernels) : nullptr;
}

}  // namespace mla::attention::cpu
