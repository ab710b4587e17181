// A prompt in two pieces through the prefill operator: the second piece attends to the first one's
// latents in the paged cache.
#include "mla/prefill.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "mla/cache_pool.h"

namespace {

int fail(const mla::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main() {
  mla::prefill::OperatorConfig config;
  config.num_heads = 4;
  config.dims = {128, 64, 128};
  config.kv_lora_rank = 512;
  config.dtype = mla::DType::kFloat32;
  const std::int64_t heads = config.num_heads, rank = config.kv_lora_rank;
  const std::int64_t rope = config.dims.qk_rope_head_dim, v_dim = config.dims.v_head_dim;
  const std::int64_t qk_dim = config.dims.qk_head_dim();

  // kv_b_proj as a checkpoint stores it; here every V is the mean of the latent.
  std::vector<float> kv_b_proj(heads * (128 + v_dim) * rank, 1.0f / static_cast<float>(rank));
  mla::prefill::Weights weights;
  weights.dtype = mla::DType::kFloat32;
  weights.kv_b_proj = kv_b_proj.data();
  const auto op = mla::prefill::Operator::create(config, weights);
  if (!op.ok()) return fail(op.error());

  auto pool = mla::prefill::CachePool::create({64, 16, rank, rope, mla::DType::kFloat32});
  if (!pool.ok()) return fail(pool.error());
  const std::int64_t sequence = pool->open();

  float worst = 0;
  std::int64_t context = 0;
  for (const std::int64_t tokens : {40, 25}) {
    const auto slots = pool->extend(sequence, tokens);
    if (!slots.ok()) return fail(slots.error());
    const auto blocks = pool->blocks(sequence);
    if (!blocks.ok()) return fail(blocks.error());

    const std::int64_t cu_seqlens[] = {0, tokens};
    mla::prefill::Batch batch;
    batch.num_requests = 1;
    batch.cu_seqlens_q = cu_seqlens;
    batch.context_lens = &context;
    batch.block_table = {blocks->data(), static_cast<std::int64_t>(blocks->size()), 0};
    const auto plan = op->plan(batch);
    if (!plan.ok()) return fail(plan.error());
    std::printf("%s\n", plan->to_string().c_str());

    std::vector<float> q(tokens * heads * qk_dim, 0.1f), kv_c(tokens * rank, 1.0f);
    std::vector<float> k_pe(tokens * rope, 0.1f), out(tokens * heads * v_dim);
    mla::prefill::RunArgs args;
    args.q = {q.data(), heads * qk_dim, qk_dim};
    args.kv_c = kv_c.data();
    args.k_pe = k_pe.data();
    args.cache = pool->cache();
    args.slot_mapping = slots->data();
    args.out = {out.data(), heads * v_dim, v_dim};
    const mla::Status status = op->run(*plan, args);
    if (!status.ok()) return fail(status.error());

    // Every latent is 1, so every V and every average of V is 1.
    for (float value : out) worst = std::fmax(worst, std::fabs(value - 1.0f));
    context += tokens;
  }
  std::printf("worst distance from 1: %g\n", worst);
  return worst < 1e-4f ? 0 : 1;
}
