// Selects a row for DeepSeek-V3 on this CPU and runs causal attention over two prompts with it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "mla/attention.h"
#include "mla/config.h"
#include "mla/platform.h"
#include "mla/selector.h"

int main() {
  // What is asked, and of which machine.
  const mla::Result<mla::ModelConfig> model = mla::load_model("deepseek-v3");
  if (!model.ok()) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
  const mla::Problem problem = model->problem();
  const mla::Platform platform = mla::this_cpu_platform();

  // The choice is a value; it says why every better row was refused.
  const auto selection = mla::select(problem, platform);
  if (!selection->ok()) return std::fprintf(stderr, "%s\n", selection->error->message.c_str()), 1;
  std::printf("chosen: %s\n", selection->full_name().c_str());
  for (const mla::Rejected& row : selection->rejected) {
    for (const mla::Reason& reason : row.reasons) {
      std::printf("  not %s: %s\n", row.full_name().c_str(), reason.text.c_str());
    }
  }
  const mla::Result<mla::Row> row = mla::selected_row(*selection, mla::default_registry());
  if (!row.ok()) return std::fprintf(stderr, "%s\n", row.error().message.c_str()), 1;

  // Two prompts of 3 and 5 tokens, one after the other, 16 heads; float32 so that plain numbers do.
  const std::int64_t heads = 16, tokens = 8;
  const std::int64_t qk_dim = problem.dims.qk_head_dim(), v_dim = problem.dims.v_head_dim;
  const std::int32_t cu_seqlens[] = {0, 3, 8};
  std::vector<float> q(tokens * heads * qk_dim, 0.1f), k(q), v(tokens * heads * v_dim, 1.0f);
  std::vector<float> out(v.size()), lse(heads * tokens);

  mla::attention::Args args;
  args.num_requests = 2;
  args.num_heads = heads;
  args.total_q = args.total_k = tokens;
  args.qk_head_dim = qk_dim;
  args.v_head_dim = v_dim;
  args.dtype = args.out_dtype = mla::DType::kFloat32;
  args.q = {q.data(), heads * qk_dim, qk_dim};
  args.k = {k.data(), heads * qk_dim, qk_dim};
  args.v = {v.data(), heads * v_dim, v_dim};
  args.out = {out.data(), heads * v_dim, v_dim};
  args.lse = lse.data();
  args.cu_seqlens_q = args.cu_seqlens_k = cu_seqlens;
  args.scale = static_cast<float>(model->softmax_scale);
  const mla::Status status = mla::attention::attend(*row->implementation, args);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.error().message.c_str()), 1;

  // v is 1 everywhere, so every average of its rows is 1.
  float worst = 0;
  for (float value : out) worst = std::fmax(worst, std::fabs(value - 1.0f));
  std::printf("worst distance from 1: %g\n", worst);
  return worst < 1e-5f ? 0 : 1;
}
