// The MLA prefill operator: queries, new latents and a paged latent cache in, attention out, in a
// byte budget.
//
// It appends the new latents to the cache and gives what one causal attention over context and new
// tokens gives with k = [kv_c W_UK^T | k_pe], v = kv_c W_UV^T (DeepSeek-V2, arXiv:2405.04434,
// section 2.1; the absorbed form is its appendix C). docs/prefill.md draws the flow.
// Shapes: T new tokens, R requests, H heads, L = kv_lora_rank, Dq = nope + rope, Dv.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mla/attention.h"
#include "mla/core.h"

namespace mla::prefill {

// Expanded: latents are projected up to K and V, a tile at a time. Absorbed: the queries are
// projected into latent space and attend to the latents themselves. Both are exact.
enum class Form : std::uint8_t { kAuto, kExpanded, kAbsorbed };

// "auto", "expanded", "absorbed"
MLA_API std::string_view name(Form form);
MLA_API std::optional<Form> parse_form(std::string_view text);

struct OperatorConfig {
  std::int64_t num_heads = 0;  // H
  MlaDims dims;
  std::int64_t kv_lora_rank = 0;     // L
  DType dtype = DType::kBFloat16;    // of q, kv_c, k_pe: float32, float16 or bfloat16
  std::optional<DType> out_dtype;    // dtype (unset) or float32
  std::optional<DType> cache_dtype;  // unset: dtype. Another one is rounded to and from
  float scale = std::numeric_limits<float>::quiet_NaN();  // NaN: Dq^-0.5
  Form form = Form::kAuto;
  std::int64_t scratch_bytes = std::int64_t{256} << 20;  // never exceeded, whatever the context
  std::string backend;  // "CPU", "CPU:avx2"; empty: the selection's choice for this machine
};

// W_UK [H,nope,L] and W_UV [H,Dv,L], or kv_b_proj [H*(nope+Dv), L] as checkpoints store it (row
// h*(nope+Dv)+i, nope first). Strides count elements, 0 stands for contiguous; the last dimension
// is contiguous. Read by create() only.
struct Weights {
  DType dtype = DType::kBFloat16;  // float32, float16 or bfloat16
  const void* w_uk = nullptr;
  std::int64_t w_uk_head_stride = 0;
  std::int64_t w_uk_row_stride = 0;
  const void* w_uv = nullptr;
  std::int64_t w_uv_head_stride = 0;
  std::int64_t w_uv_row_stride = 0;
  const void* kv_b_proj = nullptr;
  std::int64_t kv_b_proj_stride = 0;
};

// The caller's pages: token slot s lies in row s % block_size of block s / block_size, and a row is
// [kv_c (L) | k_pe (rope)], of the operator's cache_dtype.
struct PagedCache {
  void* data = nullptr;
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 0;    // tokens of a block, >= 1
  std::int64_t block_stride = 0;  // elements from block to block; 0: block_size * (L + rope)
};

// Token c of request r's context lies in row c % block_size of block row(r)[c / block_size].
struct BlockTable {
  const std::int32_t* data = nullptr;  // [R,max_blocks]; may be null where no request has context
  std::int64_t max_blocks = 0;
  std::int64_t row_stride = 0;  // 0: max_blocks
};

using Lengths = attention::CuSeqlens;  // a view of int32 or int64

// One step. The arrays are read by plan() and, the block table only, by run(): it must outlive the
// plan.
struct Batch {
  std::int64_t num_requests = 0;  // R
  Lengths cu_seqlens_q;           // [R+1]
  Lengths context_lens;           // [R]: tokens already in the cache; null: none
  BlockTable block_table;
};

// Why a request got its form.
enum class FormReason : std::uint8_t {
  kNothingToDo,  // no new tokens
  kForced,       // OperatorConfig::form
  kOnlyForm,     // the backend or the budget leaves no other
  kCheaper,      // by the cost model (docs/prefill.md)
};

struct RequestPlan {
  std::int64_t new_tokens = 0;
  std::int64_t context_tokens = 0;
  Form form = Form::kExpanded;
  FormReason reason = FormReason::kNothingToDo;
  double expanded_seconds = 0;     // modelled, of one core
  double absorbed_seconds = 0;     // modelled, of one core
  std::int64_t query_chunk = 0;    // new tokens whose partial results are held at once
  std::int64_t head_group = 0;     // heads that share a read of the latents
  std::int64_t keys_per_part = 0;  // keys one worker walks before a merge; all of them: no merge
  friend bool operator==(const RequestPlan&, const RequestPlan&) = default;
};

struct PlanState;  // the work list and the scratch memory

// What run() will do: a value, good for every layer of the step.
struct Plan {
  std::vector<RequestPlan> requests;
  std::int64_t total_tokens = 0;  // T
  std::int64_t scratch_bytes = 0;
  int workers = 0;
  std::string kernels;  // "avx2"
  std::shared_ptr<PlanState> state;

  // A line a request, for people.
  MLA_API std::string to_string() const;
  MLA_API std::string to_json() const;
};

struct RunArgs {
  attention::ConstRows q;        // [T,H,Dq], rope already applied; request_offsets are not used
  const void* kv_c = nullptr;    // [T,L], normalised
  std::int64_t kv_c_stride = 0;  // 0: L
  const void* k_pe = nullptr;    // [T,rope], rope applied
  std::int64_t k_pe_stride = 0;  // 0: rope
  PagedCache cache;              // may be empty where nothing is written and nobody has context
  const std::int64_t* slot_mapping = nullptr;  // [T], negative: do not write; null: write nothing
  attention::Rows out;                         // [T,H,Dv]
  float* lse = nullptr;                        // [H,T] natural logarithm, or null
  std::int64_t lse_head_stride = 0;            // 0: T
};

// One layer's operator. Thread-safe; runs of one plan take turns, for they share its scratch.
class MLA_API Operator {
 public:
  // Packs the weights for the chosen row's kernels. Errors: kInvalidArgument naming the field,
  // those of the selection, kUnsupported for a row without kernels on this machine.
  static Result<Operator> create(const OperatorConfig& config, const Weights& weights);
  // The same on a given implementation; config.backend is not read.
  static Result<Operator> create(const OperatorConfig& config, const Weights& weights,
                                 std::shared_ptr<const attention::Implementation> implementation);

  // Chooses each request's form and lays out the work for the executor's workers in the budget. The
  // scratch memory is allocated here, once, and reused by this operator's later plans. Errors:
  // kInvalidArgument naming the field of the batch, or scratch_bytes where the budget is less than
  // one unit of work takes; kOutOfMemory.
  Result<Plan> plan(const Batch& batch, const attention::RunOptions& options = {}) const;
  // Appends, then attends. Allocates nothing. Any operator of the same configuration may run the
  // plan. The same bits for any number of workers. kInvalidArgument names the argument; nothing is
  // written on an error.
  Status run(const Plan& plan, const RunArgs& args) const;

  const OperatorConfig& config() const;  // scale, dtypes filled in
  std::int64_t weight_bytes() const;     // memory of the packed weights

  struct Impl;
  explicit Operator(std::shared_ptr<const Impl> impl);

 private:
  std::shared_ptr<const Impl> impl_;
};

// The same in double precision by the definition, for `count` of the T tokens: the yardstick of
// every test. Reads the context from the cache and the new tokens from kv_c and k_pe; appends
// nothing. out is [count,H,Dv], lse [H,count]; either may be null. kInvalidArgument names the
// field.
struct ReferenceRows {
  const std::int64_t* tokens = nullptr;  // [count], each in [0,T)
  std::int64_t count = 0;
  double* out = nullptr;
  double* lse = nullptr;
};
MLA_API Status reference(const OperatorConfig& config, const Weights& weights, const Batch& batch,
                         const RunArgs& args, const ReferenceRows& rows);

// ---- Context chunks -----------------------------------------------------------------------------
// For backends that need K and V of a stretch of context in memory: which rows of which requests
// make a chunk. A chunk covers a contiguous run of requests; only its first may be a continuation.
struct ChunkPart {
  std::int64_t request = 0;
  std::int64_t begin = 0;  // context tokens [begin, end)
  std::int64_t end = 0;
  friend bool operator==(const ChunkPart&, const ChunkPart&) = default;
  bool continuation() const { return begin > 0; }
};
using ContextChunk = std::vector<ChunkPart>;

// row_budget: rows of a chunk at most, >= alignment; alignment: the block size, >= 1. Otherwise, or
// where a length is negative: kInvalidArgument.
MLA_API Result<std::vector<ContextChunk>> plan_context_chunks(
    const std::vector<std::int64_t>& context_lens, std::int64_t row_budget, std::int64_t alignment);

}  // namespace mla::prefill
