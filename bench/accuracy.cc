// Each element has a limit of its own; the one that uses most of it is reported.
#include "accuracy.h"

#include <algorithm>
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
  const bool projected = keys_ == KeySource::kProjected;
  const double of_rms = projected ? 3e-2 : dtype_ == DType::kFloat16 ? 2e-3 : 1e-2;
  compare(got, reference,
          dtype_ == DType::kFloat32 ? 2e-5 * (1.0 + std::fabs(reference))
                                    : ulp(dtype_, reference) + of_rms * v_rms_,
          accuracy_.out);
}

void Comparison::lse(double got, double reference) {
  const bool single = dtype_ == DType::kFloat32;
  const double size = std::isfinite(reference) ? std::fabs(reference) : 0.0;
  const double allowed = keys_ == KeySource::kProjected
                             ? (single ? 1e-5 : 1e-2) * (1.0 + size)
                             : std::max(single ? 1e-5 : 1e-3, std::ldexp(size, -20));
  compare(got, reference, allowed, accuracy_.lse);
}

}  // namespace mla::bench
