// The operator in double precision. A key's score is q_nope . (W_UK c) + q_pe . k_pe, summed as
// (q_nope W_UK) . c, and its value W_UV c: with every sum in double the order does not matter, and
// a row costs two products instead of two a key.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "prefill/elements.h"
#include "prefill/limits.h"
#include "prefill/validate.h"
#include "prefill/weights.h"

namespace mla::prefill {
namespace {

struct Problem {
  const Geometry& g;
  const WeightsView weights;
  const PlanState& state;
  const RunArgs& args;

  std::int64_t or_default(std::int64_t stride, std::int64_t contiguous) const {
    return stride != 0 ? stride : contiguous;
  }
};

// The request's keys as rows of doubles [kv_c | k_pe], the first `count` of them.
std::vector<double> key_rows(const Problem& p, std::int64_t request, std::int64_t count) {
  const RequestShape& shape = p.state.requests[static_cast<std::size_t>(request)];
  const std::int64_t rank = p.g.kv_lora_rank, width = p.g.row_width();
  const std::int64_t rope = p.g.dims.qk_rope_head_dim;
  const PagedCache& cache = p.args.cache;
  const std::int64_t stride = p.or_default(cache.block_stride, cache.block_size * width);
  std::vector<double> rows(static_cast<std::size_t>(count * width));
  for (std::int64_t key = 0; key < count; ++key) {
    double* row = rows.data() + key * width;
    if (key < shape.context_tokens) {
      const std::int64_t block =
          p.state.block_table
              .data[request * p.state.block_table.row_stride + key / cache.block_size];
      const std::int64_t base = block * stride + key % cache.block_size * width;
      // What the operator works with: the cache's value rounded to its own dtype.
      for (std::int64_t i = 0; i < width; ++i) {
        float value = load(cache.data, p.g.cache_dtype, base + i);
        if (p.g.cache_dtype != p.g.dtype) {
          store(value, &value, p.g.dtype, 0);
          value = load(&value, p.g.dtype, 0);
        }
        row[i] = value;
      }
      continue;
    }
    const std::int64_t token = shape.first_token + key - shape.context_tokens;
    const std::int64_t c_base = token * p.or_default(p.args.kv_c_stride, rank);
    for (std::int64_t i = 0; i < rank; ++i) row[i] = load(p.args.kv_c, p.g.dtype, c_base + i);
    const std::int64_t pe_base = token * p.or_default(p.args.k_pe_stride, rope);
    for (std::int64_t i = 0; i < rope; ++i) {
      row[rank + i] = load(p.args.k_pe, p.g.dtype, pe_base + i);
    }
  }
  return rows;
}

// [q_nope W_UK | q_pe]
std::vector<double> folded_query(const Problem& p, std::int64_t token, std::int64_t head) {
  const Geometry& g = p.g;
  const WeightsView& w = p.weights;
  const std::int64_t nope = g.dims.qk_nope_head_dim, rank = g.kv_lora_rank;
  const std::int64_t base = token * p.args.q.token_stride + head * p.args.q.head_stride;
  std::vector<double> folded(static_cast<std::size_t>(g.row_width()), 0.0);
  for (std::int64_t i = 0; i < nope; ++i) {
    const double q = load(p.args.q.data, g.dtype, base + i);
    const std::int64_t row = head * w.w_uk_head_stride + i * w.w_uk_row_stride;
    for (std::int64_t l = 0; l < rank; ++l) {
      folded[static_cast<std::size_t>(l)] +=
          q * static_cast<double>(load(w.w_uk, w.dtype, row + l));
    }
  }
  for (std::int64_t i = 0; i < g.dims.qk_rope_head_dim; ++i) {
    folded[static_cast<std::size_t>(rank + i)] = load(p.args.q.data, g.dtype, base + nope + i);
  }
  return folded;
}

struct Row {
  std::vector<double> latent;  // sum of p c, divided by the sum of p
  double lse = -std::numeric_limits<double>::infinity();
};

Row attend(const Geometry& g, const std::vector<double>& query, const std::vector<double>& keys,
           std::int64_t count) {
  const std::int64_t width = g.row_width();
  std::vector<double> scores(static_cast<std::size_t>(count));
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t key = 0; key < count; ++key) {
    double sum = 0.0;
    const double* row = keys.data() + key * width;
    for (std::int64_t i = 0; i < width; ++i) sum += query[static_cast<std::size_t>(i)] * row[i];
    scores[static_cast<std::size_t>(key)] = sum * static_cast<double>(g.scale);
    top = std::max(top, scores[static_cast<std::size_t>(key)]);
  }
  Row result;
  result.latent.assign(static_cast<std::size_t>(g.kv_lora_rank), 0.0);
  double total = 0.0;
  for (std::int64_t key = 0; key < count; ++key) {
    const double weight = std::exp(scores[static_cast<std::size_t>(key)] - top);
    const double* row = keys.data() + key * width;
    total += weight;
    for (std::size_t i = 0; i < result.latent.size(); ++i) result.latent[i] += weight * row[i];
  }
  for (double& value : result.latent) value /= total;
  result.lse = top + std::log(total);
  return result;
}

void project_back(const Problem& p, std::int64_t head, const std::vector<double>& latent,
                  double* out) {
  const WeightsView& w = p.weights;
  for (std::int64_t d = 0; d < p.g.dims.v_head_dim; ++d) {
    const std::int64_t row = head * w.w_uv_head_stride + d * w.w_uv_row_stride;
    double sum = 0.0;
    for (std::int64_t l = 0; l < p.g.kv_lora_rank; ++l) {
      sum +=
          latent[static_cast<std::size_t>(l)] * static_cast<double>(load(w.w_uv, w.dtype, row + l));
    }
    out[d] = sum;
  }
}

void attend_token(const Problem& p, std::int64_t index, const ReferenceRows& rows) {
  const std::int64_t token = rows.tokens[index];
  const auto& requests = p.state.requests;
  const auto after = std::upper_bound(
      requests.begin(), requests.end(), token,
      [](std::int64_t t, const RequestShape& shape) { return t < shape.first_token; });
  const RequestShape& shape = *(after - 1);
  const std::int64_t count = shape.context_tokens + token - shape.first_token + 1;
  const std::vector<double> keys = key_rows(p, after - 1 - requests.begin(), count);
  for (std::int64_t h = 0; h < p.g.num_heads; ++h) {
    const Row row = attend(p.g, folded_query(p, token, h), keys, count);
    if (rows.lse != nullptr) rows.lse[h * rows.count + index] = row.lse;
    if (rows.out == nullptr) continue;
    project_back(p, h, row.latent, rows.out + (index * p.g.num_heads + h) * p.g.dims.v_head_dim);
  }
}

PlanState state_of(const OperatorConfig& config, const Batch& batch) {
  PlanState state;
  Geometry& g = state.geometry;
  g.num_heads = config.num_heads;
  g.dims = config.dims;
  g.kv_lora_rank = config.kv_lora_rank;
  g.dtype = config.dtype;
  g.out_dtype = config.out_dtype.value_or(config.dtype);
  g.cache_dtype = config.cache_dtype.value_or(config.dtype);
  g.scale = std::isnan(config.scale)
                ? 1.0f / std::sqrt(static_cast<float>(config.dims.qk_head_dim()))
                : config.scale;
  state.block_table = batch.block_table;
  if (state.block_table.row_stride == 0)
    state.block_table.row_stride = batch.block_table.max_blocks;
  for (std::int64_t r = 0; r < batch.num_requests; ++r) {
    RequestShape shape;
    shape.first_token = batch.cu_seqlens_q[r];
    shape.new_tokens = batch.cu_seqlens_q.length(r);
    shape.context_tokens = batch.context_lens.null() ? 0 : batch.context_lens[r];
    if (shape.new_tokens > 0) {
      state.max_context = std::max(state.max_context, shape.context_tokens);
    }
    state.requests.push_back(shape);
    state.total_tokens += shape.new_tokens;
  }
  return state;
}

}  // namespace

Status reference(const OperatorConfig& config, const Weights& weights, const Batch& batch,
                 const RunArgs& args, const ReferenceRows& rows) {
  if (Status s = check_config(config); !s) return s;
  if (Status s = check_weights(config, weights); !s) return s;
  if (Status s = check_batch(batch); !s) return s;
  const PlanState state = state_of(config, batch);
  RunArgs inputs = args;
  inputs.out = {};
  inputs.lse = nullptr;
  if (Status s = check_inputs(state, inputs); !s) return s;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    if (rows.tokens != nullptr && rows.tokens[i] >= 0 && rows.tokens[i] < state.total_tokens) {
      continue;
    }
    return invalid("rows.tokens", rows.tokens == nullptr
                                      ? std::string("rows.tokens is null")
                                      : fmt::format("rows.tokens[{}] is {}; wanted 0 to {}", i,
                                                    rows.tokens[i], state.total_tokens - 1));
  }
  const Problem problem{state.geometry, view_of(config, weights), state, args};
  Executor& executor = default_executor();
  const auto workers = static_cast<int>(std::min<std::int64_t>(rows.count, executor.concurrency()));
  executor.for_each_worker(workers, [&](int worker) {
    for (std::int64_t i = worker; i < rows.count; i += workers) attend_token(problem, i, rows);
  });
  return {};
}

}  // namespace mla::prefill
