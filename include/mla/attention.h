// Ragged attention with different K and V head sizes and log-sum-exp out, and the merge of partial
// results: the contract every row of the registry fulfils, whatever its device.
//
//   s = scale * q k^T      p = exp(s - m)      o = p v / sum(p)      lse = m + ln(sum(p))
//
// Source of the formulas: FlashAttention-2 (arXiv:2307.08691, section 3.1); the merge is its
// equation for two blocks, also vLLM's merge_attn_states.
#pragma once

#include <cstdint>
#include <limits>

#include "mla/core.h"

namespace mla::attention {

// Rows of elements: element e of token t in head h lies at data[t*token_stride + h*head_stride +
// e]. Strides count elements and may be anything that stays inside the caller's memory, 0 included;
// the last dimension is contiguous. A head_stride of 0 means that all heads share the rows.
struct ConstRows {
  const void* data = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  // Where the rows of each request start, [R], in elements from data; null: request r starts at
  // token cu_seqlens[r], that is cu_seqlens[r] * token_stride. Serves dense padded batches.
  const std::int64_t* request_offsets = nullptr;
};

struct Rows {
  void* data = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  const std::int64_t* request_offsets = nullptr;
};

// Cumulative lengths [R+1] of int32 or int64: start at 0, never decrease, end at the total.
struct CuSeqlens {
  CuSeqlens() = default;
  CuSeqlens(const std::int32_t* offsets) : data_(offsets), wide_(false) {}
  CuSeqlens(const std::int64_t* offsets) : data_(offsets), wide_(true) {}

  bool null() const { return data_ == nullptr; }
  std::int64_t operator[](std::int64_t i) const {
    return wide_ ? static_cast<const std::int64_t*>(data_)[i]
                 : static_cast<const std::int32_t*>(data_)[i];
  }
  std::int64_t length(std::int64_t request) const {
    return (*this)[request + 1] - (*this)[request];
  }

 private:
  const void* data_ = nullptr;
  bool wide_ = false;
};

// Shapes: T query tokens, N key tokens, R requests, H heads, Dq = nope + rope, Dv.
struct Args {
  std::int64_t num_requests = 0;       // R
  std::int64_t num_heads = 0;          // H
  std::int64_t total_q = 0;            // T
  std::int64_t total_k = 0;            // N
  std::int64_t qk_head_dim = 0;        // Dq, 1..2048
  std::int64_t v_head_dim = 0;         // Dv, 1..2048
  DType dtype = DType::kBFloat16;      // of q, k, v: float32, float16 or bfloat16
  DType out_dtype = DType::kBFloat16;  // dtype, or float32

  ConstRows q;  // [T,H,Dq]
  ConstRows k;  // [N,H,Dq]
  ConstRows v;  // [N,H,Dv]
  Rows out;     // [T,H,Dv]
  // [H,T] float32, natural logarithm, or null. Element (h,t) at lse[h*lse_head_stride + t]; the
  // stride counts elements, 0 means T. Rows of request r are at t in [cu_seqlens_q[r], ...).
  float* lse = nullptr;
  std::int64_t lse_head_stride = 0;

  CuSeqlens cu_seqlens_q;  // [R+1], ends at T
  CuSeqlens cu_seqlens_k;  // [R+1], ends at N
  // With m queries and n keys of a request, query i sees the keys j <= i + causal_offset, where the
  // offset is n - m (aligned to the bottom right) or causal_offsets[r] where given, [R]; without
  // causal it sees all of them. A row that sees no key gets out 0 and lse -inf.
  bool causal = true;
  const std::int64_t* causal_offsets = nullptr;
  float scale = 0.0f;  // any finite number
};

// How to run: not part of the result, which has the same bits for any number of threads.
struct RunOptions {
  Executor* executor = nullptr;  // null: default_executor()
  int num_threads = 0;           // 0: as many as the executor offers
};

// Every fault of the arguments that can be seen without touching the data, before anything is
// written: kInvalidArgument with the argument's name in Error::field.
MLA_API Status validate(const Args& args);

// ---- Implementations ----------------------------------------------------------------------------
enum class LseLayout : std::uint8_t { kHeadsTokens, kTokensHeads };  // [H,T] or [T,H]
enum class LseBase : std::uint8_t { kE, k2 };

// How an implementation differs from the contract; attend() makes up for it.
struct Traits {
  LseLayout lse_layout = LseLayout::kHeadsTokens;
  LseBase lse_base = LseBase::kE;
  float empty_row_lse = -std::numeric_limits<float>::infinity();  // what it returns for such a row
  bool needs_contiguous_v = false;                                // v must be [N,H,Dv] without gaps
  bool pads_v = false;          // v and out must be as wide as q and k
  std::int64_t alignment = 0;   // bytes q, k, v and out must be aligned to; 0: their element
  std::int64_t max_tokens = 0;  // of T and N each; 0: any

  friend bool operator==(const Traits&, const Traits&) = default;
};

namespace cpu {
struct Kernels;  // src/attention/cpu/kernels.h
}

// What a row runs. Thread-safe; the arguments have been validated and fit the traits.
class MLA_API Implementation {
 public:
  virtual ~Implementation() = default;
  virtual Traits traits() const { return {}; }
  virtual Status attend(const Args& args, const RunOptions& options) const = 0;
  // The kernels behind a CPU row, from which the prefill operator is built; null elsewhere.
  virtual const cpu::Kernels* kernels() const { return nullptr; }
};

// Validates, adapts to the implementation's traits, runs. Nothing is written on an error of the
// arguments.
MLA_API Status attend(const Implementation& implementation, const Args& args,
                      const RunOptions& options = {});

// What the multiply-add units behind the row reach on the calling thread for this dtype, in GFLOP/s
// (a multiply-add counts two), measured over about `milliseconds`: the yardstick of its speed.
// kUnsupported: the row has no kernels of its own here.
MLA_API Result<double> probe_peak(const Implementation& implementation, DType dtype,
                                  double milliseconds);

// The same in double precision by plain loops: the yardstick of every test. out is float64
// [T,H,Dv] and lse float64 [H,T], both contiguous, indexed by the token's place in cu_seqlens_q;
// either may be null. args.out and args.lse are not used. kInvalidArgument as validate() of the
// rest; kOutOfMemory: total_k.
MLA_API Status reference(const Args& args, double* out, double* lse,
                         const RunOptions& options = {});

// ---- Merge --------------------------------------------------------------------------------------
// Partial results over disjoint sets of keys: m = max(lse_a, lse_b), w = exp(lse - m),
// out = (w_a a + w_b b) / (w_a + w_b), lse = m + ln(w_a + w_b). An lse of +inf counts as -inf; both
// empty: (0, -inf); a NaN lse stays NaN, and so does its row.
struct MergeArgs {
  std::int64_t num_tokens = 0;         // T
  std::int64_t num_heads = 0;          // H
  std::int64_t v_head_dim = 0;         // Dv
  DType dtype = DType::kBFloat16;      // of a and b
  DType out_dtype = DType::kBFloat16;  // dtype, or float32

  ConstRows a, b;  // [T,H,Dv]; request_offsets must be null
  Rows out;        // [T,H,Dv]; may be the same memory as a or b with the same strides and dtype
  const float* lse_a = nullptr;  // [H,T], element (h,t) at h*lse_a_head_stride + t; stride 0: T
  const float* lse_b = nullptr;
  float* lse = nullptr;  // [H,T] or null; may be the same memory as lse_a or lse_b
  std::int64_t lse_a_head_stride = 0;
  std::int64_t lse_b_head_stride = 0;
  std::int64_t lse_head_stride = 0;
  // Rows left out, [T] of 0 or 1, or null: a row with 0 takes a and lse_a as they are (tokens
  // without context keep the result over the new tokens).
  const std::uint8_t* merged_tokens = nullptr;
};

// kInvalidArgument names the field, before anything is written; so does kOutOfMemory.
MLA_API Status merge(const MergeArgs& args, const RunOptions& options = {});

}  // namespace mla::attention
