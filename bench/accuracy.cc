// Each element has a limit of its own; the one that uses most of it is reported.
#include "accuracy.h"

#include <cmath>

#include "tensor.h"

namespace mla::bench {

void Comparison::compare(double got, double reference, double allowed, Worst& worst) {
  const double error = got == reference ? 0.0 : std::fabs(got - reference);  // -inf is met by -inf
  if (!std::isfinite(error)) {
    accuracy_.finite = false;
    return;
  }
  const double share = error / allowed;
  if (worst.allowed == 0.0 || share > worst.share) worst = {error, allowed, share};
}

void Comparison::out(double got, double reference) {
  const bool single = dtype_ == DType::kFloat32;
  const bool projected = keys_ == KeySource::kProjected;
  compare(got, reference,
          single ? 2e-5 * (1.0 + std::fabs(reference))
                 : ulp(dtype_, reference) + (projected ? 3e-2 : 1e-2) * v_rms_,
          accuracy_.out);
}

void Comparison::lse(double got, double reference) {
  const bool single = dtype_ == DType::kFloat32;
  double allowed = single ? 1e-5 : 1e-3;
  if (keys_ == KeySource::kProjected) {
    allowed =
        (single ? 1e-5 : 1e-2) * (1.0 + (std::isfinite(reference) ? std::fabs(reference) : 0));
  }
  compare(got, reference, allowed, accuracy_.lse);
}

}  // namespace mla::bench
