// Time of Operator::plan() for a step of 64 requests, 8 new tokens over 8,192 each, on the row that
// is chosen here. Not a test; run it on a quiet core: taskset -c 0 build/release/bin/plan_bench
#include <benchmark/benchmark.h>

#include <vector>

#include "mla/prefill.h"
#include "mla/selector.h"

namespace {

constexpr std::int64_t kRequests = 64;
constexpr std::int64_t kNew = 8;
constexpr std::int64_t kContext = 8192;

mla::Result<mla::prefill::Operator> make_operator() {
  const mla::ModelConfig& model = mla::find_named_model("deepseek-v2-lite")->config;
  mla::prefill::OperatorConfig config;
  config.num_heads = model.num_heads;
  config.dims = model.dims;
  config.kv_lora_rank = model.kv_lora_rank;
  const auto selection = mla::select(model.problem(), mla::this_cpu_platform());
  const mla::Result<mla::Row> row = mla::selected_row(*selection, mla::default_registry());
  if (!row) return row.error();
  const std::int64_t per_head = config.dims.qk_nope_head_dim + config.dims.v_head_dim;
  const std::vector<std::uint16_t> zeros(
      static_cast<std::size_t>(config.num_heads * per_head * config.kv_lora_rank));
  mla::prefill::Weights weights;
  weights.kv_b_proj = zeros.data();
  return mla::prefill::Operator::create(config, weights, row->implementation);
}

void plan_64_requests(benchmark::State& state) {
  const mla::Result<mla::prefill::Operator> op = make_operator();
  if (!op) return state.SkipWithError(op.error().message.c_str());
  std::vector<std::int64_t> cu_seqlens_q;
  for (std::int64_t r = 0; r <= kRequests; ++r) cu_seqlens_q.push_back(r * kNew);
  const std::vector<std::int64_t> context_lens(kRequests, kContext);
  const std::int64_t blocks = (kContext + kNew) / 16 + 1;
  const std::vector<std::int32_t> table(static_cast<std::size_t>(kRequests * blocks));
  mla::prefill::Batch batch;
  batch.num_requests = kRequests;
  batch.cu_seqlens_q = cu_seqlens_q.data();
  batch.context_lens = context_lens.data();
  batch.block_table = {table.data(), blocks, 0};
  for (auto _ : state) benchmark::DoNotOptimize(op->plan(batch).ok());
}

BENCHMARK(plan_64_requests);

}  // namespace

BENCHMARK_MAIN();
