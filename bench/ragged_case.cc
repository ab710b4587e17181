// Keys of a request lie together, context first, so that one call over all of them, two calls over
// its parts and the reference read the same memory.
#include "ragged_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mla::bench {
namespace {

using attention::Args;
using attention::ConstRows;
using attention::RunOptions;

std::vector<std::int64_t> cumulative(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> sums = {0};
  for (const std::int64_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

ConstRows rows_of(const Tensor& tensor, std::int64_t heads, std::int64_t width) {
  return {tensor.data(), heads * width, width, nullptr};
}

}  // namespace

double RaggedCase::bytes_needed(const Shape& shape) {
  const auto heads = static_cast<double>(shape.num_heads);
  const auto qk = static_cast<double>(shape.dims.qk_head_dim());
  const auto v = static_cast<double>(shape.dims.v_head_dim);
  bool context = false;
  double new_tokens = 0.0;
  double keys = 0.0;
  for (const RequestLengths& request : shape.requests) {
    context = context || request.context > 0;
    new_tokens += static_cast<double>(request.new_tokens);
    keys += static_cast<double>(request.new_tokens) + static_cast<double>(request.context);
  }
  const auto size = static_cast<double>(size_of(shape.dtype));
  const double results = new_tokens * heads * (v * size + sizeof(float));
  return heads * size * (new_tokens * qk + keys * (qk + v)) + results * (context ? 2.0 : 1.0);
}

RaggedCase::RaggedCase(Shape shape, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse)
    : shape_(std::move(shape)),
      q_(std::move(q)),
      k_(std::move(k)),
      v_(std::move(v)),
      out_(std::move(out)),
      lse_(std::move(lse)) {
  std::vector<std::int64_t> queries;
  std::vector<std::int64_t> keys;
  for (const RequestLengths& request : shape_.requests) {
    queries.push_back(request.new_tokens);
    keys.push_back(request.context + request.new_tokens);
    context_.push_back(request.context);
  }
  cu_q_ = cumulative(queries);
  cu_k_ = cumulative(keys);
}

Result<RaggedCase> RaggedCase::make(const Shape& shape, std::uint64_t seed) {
  const std::int64_t heads = shape.num_heads;
  const std::int64_t qk = shape.dims.qk_head_dim();
  const std::int64_t v_dim = shape.dims.v_head_dim;
  const std::int64_t t = new_tokens(shape);
  const std::int64_t n = key_tokens(shape);
  Result<Tensor> q = Tensor::make(shape.dtype, t * heads * qk, "q");
  if (!q) return q.error();
  Result<Tensor> k = Tensor::make(shape.dtype, n * heads * qk, "k");
  if (!k) return k.error();
  Result<Tensor> v = Tensor::make(shape.dtype, n * heads * v_dim, "v");
  if (!v) return v.error();
  Result<Tensor> out = Tensor::make(shape.dtype, t * heads * v_dim, "out");
  if (!out) return out.error();
  Result<Tensor> lse = Tensor::make(DType::kFloat32, t * heads, "lse");
  if (!lse) return lse.error();
  q->fill(seed, 1.0);
  k->fill(seed + 1, 1.0);
  v->fill(seed + 2, 1.0);
  return RaggedCase(shape, std::move(*q), std::move(*k), std::move(*v), std::move(*out),
                    std::move(*lse));
}

Args RaggedCase::args() {
  Args args;
  args.num_requests = static_cast<std::int64_t>(shape_.requests.size());
  args.num_heads = shape_.num_heads;
  args.total_q = cu_q_.back();
  args.total_k = cu_k_.back();
  args.qk_head_dim = shape_.dims.qk_head_dim();
  args.v_head_dim = shape_.dims.v_head_dim;
  args.dtype = shape_.dtype;
  args.out_dtype = shape_.dtype;
  args.q = rows_of(q_, args.num_heads, args.qk_head_dim);
  args.k = rows_of(k_, args.num_heads, args.qk_head_dim);
  args.v = rows_of(v_, args.num_heads, args.v_head_dim);
  args.out = {out_.data(), args.num_heads * args.v_head_dim, args.v_head_dim, nullptr};
  args.lse = static_cast<float*>(lse_.data());
  args.cu_seqlens_q = cu_q_.data();
  args.cu_seqlens_k = cu_k_.data();
  args.scale = shape_.scale;
  return args;
}

Status RaggedCase::run(const attention::Implementation& implementation, const RunOptions& options) {
  return attention::attend(implementation, args(), options);
}

Status RaggedCase::run_in_chunks(const attention::Implementation& implementation,
                                 const RunOptions& options, std::int64_t chunk_tokens) {
  std::vector<std::int64_t> k_offsets;
  std::vector<std::int64_t> v_offsets;
  Args suffix = args();
  for (std::size_t r = 0; r < context_.size(); ++r) {
    k_offsets.push_back((cu_k_[r] + context_[r]) * suffix.k.token_stride);
    v_offsets.push_back((cu_k_[r] + context_[r]) * suffix.v.token_stride);
  }
  suffix.k.request_offsets = k_offsets.data();
  suffix.v.request_offsets = v_offsets.data();
  suffix.cu_seqlens_k = cu_q_.data();  // as many new keys as new queries
  suffix.total_k = cu_q_.back();
  Status status = attention::attend(implementation, suffix, options);
  const std::int64_t longest =
      context_.empty() ? 0 : *std::max_element(context_.begin(), context_.end());
  for (std::int64_t begin = 0; status.ok() && begin < longest; begin += chunk_tokens) {
    status = attend_chunk(implementation, options, begin, begin + chunk_tokens);
  }
  return status;
}

Status RaggedCase::attend_chunk(const attention::Implementation& implementation,
                                const RunOptions& options, std::int64_t begin, std::int64_t end) {
  if (part_.empty()) {
    Result<Tensor> out = Tensor::make(shape_.dtype, out_.count(), "a chunk's out");
    if (!out) return out.error();
    Result<Tensor> lse = Tensor::make(DType::kFloat32, lse_.count(), "a chunk's lse");
    if (!lse) return lse.error();
    part_.push_back(std::move(*out));
    part_.push_back(std::move(*lse));
  }
  Args chunk = args();
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> k_offsets;
  std::vector<std::int64_t> v_offsets;
  for (std::size_t r = 0; r < context_.size(); ++r) {
    const std::int64_t first = std::min(begin, context_[r]);
    lengths.push_back(std::min(end, context_[r]) - first);
    k_offsets.push_back((cu_k_[r] + first) * chunk.k.token_stride);
    v_offsets.push_back((cu_k_[r] + first) * chunk.v.token_stride);
  }
  const std::vector<std::int64_t> cu_chunk = cumulative(lengths);
  chunk.k.request_offsets = k_offsets.data();
  chunk.v.request_offsets = v_offsets.data();
  chunk.cu_seqlens_k = cu_chunk.data();
  chunk.total_k = cu_chunk.back();
  chunk.causal = false;
  chunk.out.data = part_[0].data();
  chunk.lse = static_cast<float*>(part_[1].data());
  Status status = attention::attend(implementation, chunk, options);
  return status.ok() ? merge_part(options) : status;
}

Status RaggedCase::merge_part(const RunOptions& options) {
  attention::MergeArgs merge;
  merge.num_tokens = cu_q_.back();
  merge.num_heads = shape_.num_heads;
  merge.v_head_dim = shape_.dims.v_head_dim;
  merge.dtype = shape_.dtype;
  merge.out_dtype = shape_.dtype;
  merge.a = rows_of(out_, merge.num_heads, merge.v_head_dim);
  merge.b = rows_of(part_[0], merge.num_heads, merge.v_head_dim);
  merge.out = {out_.data(), merge.num_heads * merge.v_head_dim, merge.v_head_dim, nullptr};
  merge.lse_a = static_cast<const float*>(lse_.data());
  merge.lse_b = static_cast<const float*>(part_[1].data());
  merge.lse = static_cast<float*>(lse_.data());
  return attention::merge(merge, options);
}

std::vector<RaggedCase::Sample> RaggedCase::samples(double multiply_adds) const {
  constexpr std::int64_t kBetween = 3;  // tokens of a request besides its first and last
  std::vector<Sample> tokens;
  double visible = 0.0;
  for (std::size_t r = 0; r < context_.size(); ++r) {
    const std::int64_t m = cu_q_[r + 1] - cu_q_[r];
    std::int64_t previous = -1;
    for (std::int64_t i = 0; i <= kBetween + 1 && m > 0; ++i) {
      const std::int64_t row = (m - 1) * i / (kBetween + 1);
      if (row == previous) continue;
      previous = row;
      tokens.push_back({cu_q_[r] + row, 0, static_cast<std::int64_t>(r), context_[r] + row + 1});
      visible += static_cast<double>(tokens.back().visible);
    }
  }
  const auto widths = static_cast<double>(shape_.dims.qk_head_dim() + shape_.dims.v_head_dim);
  const double affordable = multiply_adds / std::max(1.0, visible * widths);
  const std::int64_t heads = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::min(affordable, 1e6)), 1, shape_.num_heads);
  std::vector<Sample> chosen;
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    for (std::int64_t i = 0; i < heads; ++i) {  // other heads for the next token
      Sample sample = tokens[s];
      sample.head =
          (i * shape_.num_heads / heads + static_cast<std::int64_t>(s)) % shape_.num_heads;
      chosen.push_back(sample);
    }
  }
  return chosen;
}

// Every sampled row is a request of one query and one head to the reference, by row offsets.
Result<Accuracy> RaggedCase::verify(double multiply_adds, const RunOptions& options) const {
  const std::vector<Sample> chosen = samples(multiply_adds);
  const std::int64_t qk = shape_.dims.qk_head_dim();
  const std::int64_t v_dim = shape_.dims.v_head_dim;
  const std::int64_t heads = shape_.num_heads;
  std::vector<std::int64_t> ones(chosen.size(), 1);
  std::vector<std::int64_t> visible, q_offsets, k_offsets, v_offsets;
  for (const Sample& sample : chosen) {
    const std::int64_t first_key = cu_k_[static_cast<std::size_t>(sample.request)];
    visible.push_back(sample.visible);
    q_offsets.push_back((sample.token * heads + sample.head) * qk);
    k_offsets.push_back((first_key * heads + sample.head) * qk);
    v_offsets.push_back((first_key * heads + sample.head) * v_dim);
  }
  const std::vector<std::int64_t> cu_q = cumulative(ones);
  const std::vector<std::int64_t> cu_k = cumulative(visible);
  Args rows;
  rows.num_requests = static_cast<std::int64_t>(chosen.size());
  rows.num_heads = 1;
  rows.total_q = cu_q.back();
  rows.total_k = cu_k.back();
  rows.qk_head_dim = qk;
  rows.v_head_dim = v_dim;
  rows.dtype = shape_.dtype;
  rows.out_dtype = shape_.dtype;
  rows.q = {q_.data(), heads * qk, qk, q_offsets.data()};
  rows.k = {k_.data(), heads * qk, qk, k_offsets.data()};
  rows.v = {v_.data(), heads * v_dim, v_dim, v_offsets.data()};
  rows.cu_seqlens_q = cu_q.data();
  rows.cu_seqlens_k = cu_k.data();
  rows.causal = false;
  rows.scale = shape_.scale;
  std::vector<double> out(chosen.size() * static_cast<std::size_t>(v_dim));
  std::vector<double> lse(chosen.size());
  Status status = attention::reference(rows, out.data(), lse.data(), options);
  if (!status.ok()) return status.error();
  Comparison comparison(shape_.dtype, v_.rms(), KeySource::kGiven);
  for (std::size_t s = 0; s < chosen.size(); ++s) {
    const std::int64_t row = chosen[s].token * heads + chosen[s].head;
    for (std::int64_t e = 0; e < v_dim; ++e) {
      comparison.out(out_.get(row * v_dim + e),
                     out[s * static_cast<std::size_t>(v_dim) + static_cast<std::size_t>(e)]);
    }
    comparison.lse(lse_.get(chosen[s].head * cu_q_.back() + chosen[s].token), lse[s]);
    comparison.count_row();
  }
  return comparison.accuracy();
}

}  // namespace mla::bench
