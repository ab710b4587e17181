// How far a result may be from the double-precision reference, and how far it is.
#pragma once

#include <cstdint>

#include "mla/core.h"

namespace mla::bench {

// Over the rows that were compared.
struct Accuracy {
  std::int64_t rows = 0;       // rows of one head
  double worst_error = 0.0;    // |out - reference|, of the element that comes nearest its limit
  double worst_allowed = 0.0;  // what that element was allowed
  double worst_share = 0.0;    // worst_error / worst_allowed
  double worst_lse_error = 0.0;
  double lse_allowed = 0.0;
  bool finite = true;

  bool passed() const { return finite && worst_share <= 1.0 && worst_lse_error <= lse_allowed; }
};

// The limits for results of one dtype (docs/numerics.md): float32: 2e-5 (1 + |ref|); bfloat16 and
// float16: one unit in the last place of the rounded reference and 1e-2 rms(v).
class Comparison {
 public:
  Comparison(DType dtype, double v_rms);
  void out(double got, double reference);
  void lse(double got, double reference);
  void count_row() { ++accuracy_.rows; }
  const Accuracy& accuracy() const { return accuracy_; }

 private:
  DType dtype_;
  double v_rms_;
  Accuracy accuracy_;
};

}  // namespace mla::bench
