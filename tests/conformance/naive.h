// A plain float implementation of the contract with faults to order: the suite must pass it without
// one and name the property that each of them breaks.
#pragma once

#include "mla/attention.h"

namespace mla::conformance {

enum class Fault {
  kNone,
  kCausalOneMore,      // query i sees key i + n - m + 1
  kCausalOneLess,      // and one key too few
  kTopLeft,            // the mask starts at the top left
  kOffsetOverflow,     // causal offsets in 32 bits
  kDropsLastKey,       // the last key of every 64
  kMasksByZero,        // masked keys get p = 0 and are summed: 0 * NaN
  kNanInMax,           // a row's maximum is taken over masked keys too
  kSharesScores,       // a query's NaN stays in a buffer that the next query adds to
  kLseBase2,           // lse in log2
  kLseEmptyInf,        // +inf for empty rows
  kIgnoresLseStride,   // heads of lse without gaps
  kLeavesEmptyRows,    // out of empty rows is not written
  kWritesPastRow,      // one element behind each row of out
  kReadsPastRow,       // one vector behind the row of v
  kContiguousV,        // takes v for [N,H,Dv] without gaps
  kIgnoresOffsets,     // request_offsets
  kHeadStrideNotZero,  // takes 0 for "contiguous"
  kThreadDependent,    // keys split by the number of threads
  kBatchDependent,     // keys split by the number of requests
  kRemembers,          // the second call differs from the first
  kBf16Accumulation,   // o in bfloat16
  kBf16P,              // p in bfloat16 whatever the input
  kNoMax,              // exp without subtracting the maximum
  kFusedMax,           // scale s - m in one rounding, m rounded before
  kAbsScale,           // a negative scale loses its sign
  kFloatSums,          // scores as plain sums in float32, however many dims
  kRoundsTwice,        // float32 out goes through the input type
  kRefusesOddDims,     // kUnsupported for what the row claims to take
};

class NaiveAttention final : public attention::Implementation {
 public:
  explicit NaiveAttention(Fault fault, attention::Traits traits = {})
      : fault_(fault), traits_(traits) {}
  attention::Traits traits() const override { return traits_; }
  Status attend(const attention::Args& args, const attention::RunOptions& options) const override;

 private:
  Fault fault_;
  attention::Traits traits_;
  mutable bool ran_ = false;
};

}  // namespace mla::conformance
