// The peak probe of a row: what the multiply-add units reach that a dtype runs on.
#include <cmath>
#include <string>

#include "attention/cpu/kernels.h"
#include "mla/attention.h"

namespace mla::attention {

Result<double> probe_peak(const Implementation& implementation, DType dtype, double milliseconds) {
  if (!(milliseconds > 0.0) || !std::isfinite(milliseconds)) {
    return Error{ErrorCode::kInvalidArgument, "milliseconds",
                 "milliseconds is " + std::to_string(milliseconds) + ", must be positive"};
  }
  const cpu::Kernels* kernels = implementation.kernels();
  if (kernels == nullptr || kernels->probe_peak == nullptr) {
    return Error{ErrorCode::kUnsupported, "implementation",
                 "this implementation has no peak probe of its own"};
  }
  // A table may leave a dtype to another one's units; head dims do not matter for that.
  const cpu::Kernels& units = cpu::kernels_for(*kernels, {dtype, 64, 64});
  return units.probe_peak(dtype, milliseconds);
}

}  // namespace mla::attention
