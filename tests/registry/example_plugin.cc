// A complete plug-in: float32 attention by plain loops, parallel over heads on the host's threads.
// docs/adding-a-backend.md explains it.
#include <cmath>
#include <cstdio>

#include "mla/plugin.h"

namespace {

int32_t refuse(mla_plugin_message* message, int32_t status, const char* text) {
  std::snprintf(message->text, message->capacity, "%s", text);
  return status;
}

int32_t probe(const mla_plugin_host* host, mla_plugin_message* message) {
  if (host->device == MLA_PLUGIN_CPU) return MLA_PLUGIN_OK;
  return refuse(message, MLA_PLUGIN_FAILED, "no CPU");
}

int32_t supports(const mla_plugin_batch* batch, mla_plugin_message* message) {
  if (batch->out_dtype == MLA_PLUGIN_FLOAT32) return MLA_PLUGIN_OK;
  return refuse(message, MLA_PLUGIN_UNSUPPORTED, "writes float32 only");
}

int64_t longest(const int64_t* cu_seqlens, int64_t num_requests) {
  int64_t longest = 0;
  for (int64_t r = 0; r < num_requests; ++r) {
    const int64_t length = cu_seqlens[r + 1] - cu_seqlens[r];
    if (length > longest) longest = length;
  }
  return longest;
}

// The scores of one query row for every head: [H, longest request].
int32_t plan(const mla_plugin_batch* batch, void** plan, size_t* workspace_bytes,
             mla_plugin_message*) {
  *plan = nullptr;
  *workspace_bytes =
      static_cast<size_t>(batch->num_heads * longest(batch->cu_seqlens_k, batch->num_requests)) *
      sizeof(float);
  return MLA_PLUGIN_OK;
}

struct Call {
  const mla_plugin_batch* batch;
  const mla_plugin_tensors* tensors;
  float* scores;
  int32_t workers;
};

float* row(const mla_plugin_tensor& tensor, const int64_t* cu_seqlens, int64_t r, int64_t token,
           int64_t head) {
  const int64_t start = tensor.request_offsets != nullptr ? tensor.request_offsets[r]
                                                          : cu_seqlens[r] * tensor.token_stride;
  return static_cast<float*>(tensor.data) + start + token * tensor.token_stride +
         head * tensor.head_stride;
}

// Query row i of request r and one head over its first `visible` keys.
void attend(const Call& call, int64_t r, int64_t head, int64_t i, int64_t visible, float* scores) {
  const mla_plugin_batch& batch = *call.batch;
  const mla_plugin_tensors& t = *call.tensors;
  const float* q = row(t.q, batch.cu_seqlens_q, r, i, head);
  float max = -INFINITY;
  for (int64_t j = 0; j < visible; ++j) {
    const float* k = row(t.k, batch.cu_seqlens_k, r, j, head);
    double dot = 0.0;  // the bound is missed by float sums of many products
    for (int64_t e = 0; e < batch.qk_head_dim; ++e) dot += double{q[e]} * k[e];
    scores[j] = static_cast<float>(batch.scale * dot);
    max = scores[j] > max ? scores[j] : max;
  }
  float* out = row(t.out, batch.cu_seqlens_q, r, i, head);
  for (int64_t e = 0; e < batch.v_head_dim; ++e) out[e] = 0.0f;
  float sum = 0.0f;
  for (int64_t j = 0; j < visible; ++j) {
    const float p = std::exp(scores[j] - max);
    const float* v = row(t.v, batch.cu_seqlens_k, r, j, head);
    for (int64_t e = 0; e < batch.v_head_dim; ++e) out[e] += p * v[e];
    sum += p;
  }
  for (int64_t e = 0; e < batch.v_head_dim && visible > 0; ++e) out[e] /= sum;
  if (t.lse == nullptr) return;
  t.lse[head * t.lse_head_stride + batch.cu_seqlens_q[r] + i] =
      visible > 0 ? max + std::log(sum) : -INFINITY;
}

int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

void attend_head(const Call& call, int64_t head, float* scores) {
  const mla_plugin_batch& batch = *call.batch;
  for (int64_t r = 0; r < batch.num_requests; ++r) {
    const int64_t queries = batch.cu_seqlens_q[r + 1] - batch.cu_seqlens_q[r];
    const int64_t keys = batch.cu_seqlens_k[r + 1] - batch.cu_seqlens_k[r];
    // A given offset may be any number: cut it to where it matters before adding to it.
    const int64_t offset = batch.causal_offsets != nullptr
                               ? clamp(batch.causal_offsets[r], -queries - 1, keys)
                               : keys - queries;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t visible = batch.causal ? clamp(i + offset + 1, 0, keys) : keys;
      attend(call, r, head, i, visible, scores);
    }
  }
}

void work(void* context, int32_t worker) {
  const Call& call = *static_cast<const Call*>(context);
  const int64_t stride = longest(call.batch->cu_seqlens_k, call.batch->num_requests);
  for (int64_t head = worker; head < call.batch->num_heads; head += call.workers) {
    attend_head(call, head, call.scores + head * stride);
  }
}

int32_t run(void*, const mla_plugin_batch* batch, const mla_plugin_tensors* tensors,
            const mla_plugin_threads* threads, void* workspace, void*, mla_plugin_message*) {
  Call call{batch, tensors, static_cast<float*>(workspace), threads->concurrency};
  threads->run(threads->self, call.workers, work, &call);
  return MLA_PLUGIN_OK;
}

const mla_plugin_api kApi = {
    sizeof(mla_plugin_api),
    MLA_PLUGIN_ABI_VERSION,
    {sizeof(mla_plugin_row), "EXAMPLE", nullptr, "plain loops in a plug-in library", MLA_PLUGIN_CPU,
     1u << MLA_PLUGIN_FLOAT32, 0, 0, nullptr, 0, nullptr, 0, nullptr, 0, 1024},
    {sizeof(mla_plugin_traits), 0, 0, -INFINITY, 0, 0, 0, 0},
    probe,
    supports,
    plan,
    run,
    nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const mla_plugin_api* mla_plugin(void) {
  return &kApi;
}
