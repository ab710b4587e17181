// A batch for the prefill operator with weights, latents and a paged cache in memory: runs it and
// compares a sample of tokens with the reference.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accuracy.h"
#include "mla/prefill.h"
#include "shape.h"
#include "tensor.h"

namespace mla::bench {

class OperatorCase {
 public:
  static double bytes_needed(const Shape& shape, std::int64_t kv_lora_rank);
  // Errors: those of Operator::create, kUnsupported for a row without kernels among them.
  static Result<OperatorCase> make(const Shape& shape, std::int64_t kv_lora_rank,
                                   std::shared_ptr<const attention::Implementation> implementation,
                                   std::uint64_t seed, prefill::Form form = prefill::Form::kAuto);

  // Once, before run(): the same plan serves every layer of a step.
  Status plan(const attention::RunOptions& options);
  Status run();
  const prefill::Plan& plan() const { return *plan_; }

  // What the forms that the plan chose compute: 2 H (Dq + Dv) for a visible pair and 2 H L (nope +
  // Dv) for a key where expanded, 2 H (2 L + rope) for a pair and 2 H L (nope + Dv) for a new token
  // where absorbed. Only after plan().
  double flops() const;

  // Of the latents that each request's new tokens see, read once.
  double latent_bytes() const;

  // First and last new token of every request and some between, all heads.
  Result<Accuracy> verify() const;

 private:
  OperatorCase(Shape shape, std::int64_t kv_lora_rank, prefill::Form form);
  Status allocate(std::uint64_t seed);
  void lay_out_cache();
  prefill::Batch batch() const;
  prefill::RunArgs args() const;
  prefill::Weights weights() const;
  prefill::OperatorConfig config() const;
  std::vector<std::int64_t> sampled_tokens() const;
  double v_rms() const;
  Status compare(const std::vector<std::int64_t>& tokens, Comparison& comparison) const;

  Shape shape_;
  std::int64_t kv_lora_rank_;
  prefill::Form form_;
  std::vector<Tensor> tensors_;  // by Place in operator_case.cc
  std::vector<std::int64_t> cu_q_, context_, slots_;
  std::vector<std::int32_t> block_table_;
  std::int64_t max_blocks_ = 0, num_blocks_ = 0;
  std::optional<prefill::Operator> operator_;
  std::optional<prefill::Plan> plan_;
};

}  // namespace mla::bench
