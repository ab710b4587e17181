// Each element has a limit of its own; the one that uses most of it is reported.
#include "accuracy.h"

#include <cmath>

#include "tensor.h"

namespace mla::bench {

Comparison::Comparison(DType dtype, double v_rms) : dtype_(dtype), v_rms_(v_rms) {
  accuracy_.lse_allowed = dtype == DType::kFloat32 ? 1e-5 : 1e-3;
}

void Comparison::out(double got, double reference) {
  if (!std::isfinite(got)) {
    accuracy_.finite = false;
    return;
  }
  const double allowed = dtype_ == DType::kFloat32 ? 2e-5 * (1.0 + std::fabs(reference))
                                                   : ulp(dtype_, reference) + 1e-2 * v_rms_;
  const double error = std::fabs(got - reference);
  const double share = error / allowed;
  if (accuracy_.worst_allowed == 0.0 || share > accuracy_.worst_share) {
    accuracy_.worst_error = error;
    accuracy_.worst_allowed = allowed;
    accuracy_.worst_share = share;
  }
}

void Comparison::lse(double got, double reference) {
  if (got == reference) return;  // both -inf: a row that sees no key
  const double error = std::fabs(got - reference);
  if (!std::isfinite(error)) {
    accuracy_.finite = false;
  } else {
    accuracy_.worst_lse_error = std::fmax(accuracy_.worst_lse_error, error);
  }
}

}  // namespace mla::bench
