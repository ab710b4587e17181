// Attention one query at a time in float, with two passes over the keys of a slice at a time so
// that faults of splitting can be had.
#include "conformance/naive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/half.h"

namespace mla::conformance {
namespace {

using attention::Args;
using attention::RunOptions;

constexpr float kInf = std::numeric_limits<float>::infinity();

float load(DType dtype, const void* data, std::int64_t at) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<const float*>(data)[at];
    case DType::kFloat16:
      return to_float(static_cast<const Float16*>(data)[at]);
    default:
      return to_float(static_cast<const BFloat16*>(data)[at]);
  }
}

void store(DType dtype, void* data, std::int64_t at, float value) {
  switch (dtype) {
    case DType::kFloat32:
      static_cast<float*>(data)[at] = value;
      return;
    case DType::kFloat16:
      return from_float(value, static_cast<Float16*>(data) + at);
    default:
      return from_float(value, static_cast<BFloat16*>(data) + at);
  }
}

float through(DType dtype, float value) {
  float buffer;
  store(dtype, &buffer, 0, value);
  return load(dtype, &buffer, 0);
}

class NaiveRun {
 public:
  NaiveRun(const Args& args, Fault fault, int slices) : a_(args), fault_(fault), slices_(slices) {}

  void head(std::int64_t r, std::int64_t h) {
    const std::int64_t m = a_.cu_seqlens_q.length(r);
    const std::int64_t n = a_.cu_seqlens_k.length(r);
    k_.clear();
    v_.clear();
    for (std::int64_t j = 0; j < n; ++j) {
      widen(a_.k, at(a_.k, a_.cu_seqlens_k, r, j, h), a_.qk_head_dim, k_);
      widen(a_.v, value_at(r, j, h), a_.v_head_dim, v_);
    }
    std::vector<float> scores(static_cast<std::size_t>(a_.cu_seqlens_k.length(r)) + 1, 0.0f);
    for (std::int64_t i = 0; i < m; ++i) row(r, h, i, scores);
  }

 private:
  void widen(const attention::ConstRows& rows, std::int64_t from, std::int64_t count,
             std::vector<float>& to) const {
    for (std::int64_t e = 0; e < count; ++e) to.push_back(load(a_.dtype, rows.data, from + e));
  }

  template <class Rows>
  std::int64_t at(const Rows& rows, const attention::CuSeqlens& cu, std::int64_t r, std::int64_t i,
                  std::int64_t h) const {
    const bool offsets = rows.request_offsets != nullptr && fault_ != Fault::kIgnoresOffsets;
    const std::int64_t base = offsets ? rows.request_offsets[r] : cu[r] * rows.token_stride;
    if (rows.head_stride == 0 && fault_ == Fault::kHeadStrideNotZero) {
      i = (i + h) % cu.length(r);  // contiguous heads would lie there; never past the request
    }
    return base + i * rows.token_stride + h * rows.head_stride;
  }

  std::int64_t visible(std::int64_t r, std::int64_t i) const {
    const std::int64_t m = a_.cu_seqlens_q.length(r);
    const std::int64_t n = a_.cu_seqlens_k.length(r);
    if (!a_.causal) return n;
    std::int64_t offset = a_.causal_offsets != nullptr ? a_.causal_offsets[r] : n - m;
    if (fault_ == Fault::kOffsetOverflow) offset = static_cast<std::int32_t>(offset);
    if (fault_ == Fault::kTopLeft && a_.causal_offsets == nullptr) offset = 0;
    offset = std::clamp(offset, -m, n);
    if (fault_ == Fault::kCausalOneMore) ++offset;
    if (fault_ == Fault::kCausalOneLess) --offset;
    return std::clamp<std::int64_t>(i + offset + 1, 0, n);
  }

  bool dropped(std::int64_t j) const { return fault_ == Fault::kDropsLastKey && j % 64 == 63; }

  float score(const std::vector<float>& q, std::int64_t j) const {
    const float* k = k_.data() + j * a_.qk_head_dim;
    double exact = 0;
    float plain = 0;
    for (std::size_t d = 0; d < q.size(); ++d) {
      exact += static_cast<double>(q[d]) * static_cast<double>(k[d]);
      plain += q[d] * k[d];
    }
    const float dot = fault_ == Fault::kFloatSums ? plain : static_cast<float>(exact);
    if (fault_ == Fault::kFusedMax) return dot;
    return dot * (fault_ == Fault::kAbsScale ? std::fabs(a_.scale) : a_.scale);
  }

  // s, and its maximum over the keys seen.
  float scores_of(std::int64_t r, std::int64_t h, std::int64_t i, std::vector<float>& s) const {
    const std::int64_t seen = visible(r, i);
    const std::int64_t computed = fault_ == Fault::kNanInMax || fault_ == Fault::kMasksByZero
                                      ? a_.cu_seqlens_k.length(r)
                                      : seen;
    std::vector<float> q;
    widen(a_.q, at(a_.q, a_.cu_seqlens_q, r, i, h), a_.qk_head_dim, q);
    float m = -kInf;
    for (std::int64_t j = 0; j < computed; ++j) {
      float& place = s[static_cast<std::size_t>(j)];
      const float fresh = score(q, j);
      place = fault_ == Fault::kSharesScores ? fresh + 0.0f * place : fresh;
      if (dropped(j)) place = -kInf;
      if (fault_ == Fault::kNanInMax || j < seen) m = place > m || place != place ? place : m;
    }
    return fault_ == Fault::kNoMax ? 0.0f : m;
  }

  void row(std::int64_t r, std::int64_t h, std::int64_t i, std::vector<float>& s) const {
    const std::int64_t seen = visible(r, i);
    const std::int64_t out = at(a_.out, a_.cu_seqlens_q, r, i, h);
    std::vector<float> o(static_cast<std::size_t>(a_.v_head_dim), 0.0f);
    const bool fused = fault_ == Fault::kFusedMax;
    const float highest = scores_of(r, h, i, s);
    const float m = fused ? highest * a_.scale : highest;
    if (fused) {
      for (float& x : s) x = std::fma(a_.scale, x, -m);
    }
    float sum = 0;
    const std::int64_t summed = fault_ == Fault::kMasksByZero ? a_.cu_seqlens_k.length(r) : seen;
    // A slice is summed by itself, then added.
    for (int slice = 0; slice < slices_; ++slice) {
      std::vector<float> part(o.size(), 0.0f);
      float part_sum = 0;
      for (std::int64_t j = slice; j < summed; j += slices_) {
        float p = j < seen ? std::exp(s[static_cast<std::size_t>(j)] - (fused ? 0.0f : m)) : 0.0f;
        part_sum += p;
        if (fault_ == Fault::kBf16P) p = through(DType::kBFloat16, p);
        add(p, j, part);
        if (fault_ == Fault::kReadsPastRow) read_beyond(value_at(r, j, h));
      }
      sum += part_sum;
      for (std::size_t e = 0; e < o.size(); ++e) o[e] += part[e];
    }
    if (seen > 0 || fault_ != Fault::kLeavesEmptyRows) finish(out, seen, sum, o);
    if (a_.lse != nullptr) write_lse(r, h, i, seen, m, sum);
  }

  std::int64_t value_at(std::int64_t r, std::int64_t j, std::int64_t h) const {
    if (fault_ != Fault::kContiguousV) {
      return at(a_.v, a_.cu_seqlens_k, r, j, h);
    }
    return ((a_.cu_seqlens_k[r] + j) * a_.num_heads + h) * a_.v_head_dim;
  }

  void add(float p, std::int64_t j, std::vector<float>& o) const {
    const float* v = v_.data() + j * a_.v_head_dim;
    for (std::size_t e = 0; e < o.size(); ++e) {
      o[e] += p * v[e];
      if (fault_ == Fault::kBf16Accumulation) o[e] = through(DType::kBFloat16, o[e]);
    }
  }

  void read_beyond(std::int64_t v) const {
    volatile float beyond = load(a_.dtype, a_.v.data, v + a_.v_head_dim + 7);
    static_cast<void>(beyond);
  }

  void finish(std::int64_t out, std::int64_t seen, float sum, const std::vector<float>& o) const {
    for (std::size_t e = 0; e < o.size(); ++e) {
      float value = seen > 0 ? o[e] / sum : 0.0f;
      if (fault_ == Fault::kRoundsTwice) value = through(DType::kBFloat16, value);
      store(a_.out_dtype, a_.out.data, out + static_cast<std::int64_t>(e), value);
    }
    if (fault_ == Fault::kWritesPastRow) {
      store(a_.out_dtype, a_.out.data, out + a_.v_head_dim, 1.0f);
    }
  }

  void write_lse(std::int64_t r, std::int64_t h, std::int64_t i, std::int64_t seen, float m,
                 float sum) const {
    float lse = seen > 0 ? m + std::log(sum) : -kInf;
    if (fault_ == Fault::kLseBase2) lse *= 1.44269504f;
    if (fault_ == Fault::kLseEmptyInf && seen == 0) lse = kInf;
    const bool ignore = fault_ == Fault::kIgnoresLseStride || a_.lse_head_stride == 0;
    a_.lse[h * (ignore ? a_.total_q : a_.lse_head_stride) + a_.cu_seqlens_q[r] + i] = lse;
  }

  const Args& a_;
  const Fault fault_;
  const int slices_;
  std::vector<float> k_, v_;  // of the head at hand
};

}  // namespace

Status NaiveAttention::attend(const Args& args, const RunOptions& options) const {
  if (fault_ == Fault::kRefusesOddDims && args.v_head_dim % 2 != 0) {
    return Error{ErrorCode::kUnsupported, "v_head_dim", "v_head_dim is odd"};
  }
  Executor& executor = options.executor != nullptr ? *options.executor : default_executor();
  const int workers = options.num_threads > 0 ? options.num_threads : executor.concurrency();
  int slices = 1;
  if (fault_ == Fault::kThreadDependent) slices = workers;
  if (fault_ == Fault::kBatchDependent) slices = static_cast<int>(args.num_requests);
  if (fault_ == Fault::kRemembers) slices = ran_ ? 2 : 1;
  ran_ = true;
  executor.for_each_worker(workers, [&](int worker) {
    NaiveRun run(args, fault_, slices);
    for (std::int64_t unit = worker; unit < args.num_requests * args.num_heads; unit += workers) {
      run.head(unit / args.num_heads, unit % args.num_heads);
    }
  });
  return {};
}

}  // namespace mla::conformance
