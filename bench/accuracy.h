// How far a result may be from the double-precision reference, and how far it is.
#pragma once

#include <cstdint>

#include "mla/core.h"

namespace mla::bench {

// The element that comes nearest its limit.
struct Worst {
  double error = 0.0;    // |got - reference|
  double allowed = 0.0;  // what this element was allowed
  double share = 0.0;    // error / allowed
};

// Over the rows that were compared.
struct Accuracy {
  std::int64_t rows = 0;  // rows of one head
  Worst out;
  Worst lse;
  bool finite = true;

  bool passed() const { return finite && out.share <= 1.0 && lse.share <= 1.0; }
};

enum class KeySource : std::uint8_t { kGiven, kProjected };

// The limits for results of one dtype (docs/numerics.md). Output: float32 2e-5 (1 + |ref|);
// bfloat16 and float16 one unit in the last place of the reference and 1e-2 and 2e-3 rms(v).
// Log-sum-exp: 1e-5 and 1e-3, or 2^-20 |ref| where that is more. Where keys are projected from
// latents, and so rounded once more, 3e-2 rms(v), and of log-sum-exp 1e-5 and 1e-2 of 1 + |ref|.
class Comparison {
 public:
  Comparison(DType dtype, double v_rms, KeySource keys)
      : dtype_(dtype), v_rms_(v_rms), keys_(keys) {}
  void out(double got, double reference);
  void lse(double got, double reference);
  void count_row() { ++accuracy_.rows; }
  const Accuracy& accuracy() const { return accuracy_; }

 private:
  void compare(double got, double reference, double allowed, Worst& worst);

  DType dtype_;
  double v_rms_;
  KeySource keys_;
  Accuracy accuracy_;
};

}  // namespace mla::bench
