// Weights are scaled so that projected keys and values are about as large as the latents; pages are
// handed out back to front, so that no request lies in one piece.
#include "operator_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mla::bench {
namespace {

constexpr std::int64_t kBlockSize = 16;

enum Place : std::size_t { kQ, kKvC, kKPe, kCache, kWeights, kOut, kLse, kPlaces };

std::int64_t blocks_of(const RequestLengths& request) {
  return (request.context + request.new_tokens + kBlockSize - 1) / kBlockSize;
}

}  // namespace

double OperatorCase::bytes_needed(const Shape& shape, std::int64_t kv_lora_rank) {
  const auto heads = static_cast<double>(shape.num_heads);
  const auto row = static_cast<double>(kv_lora_rank + shape.dims.qk_rope_head_dim);
  const auto widths = static_cast<double>(shape.dims.qk_head_dim() + shape.dims.v_head_dim);
  double fresh = 0.0;
  double keys = 0.0;
  for (const RequestLengths& request : shape.requests) {
    fresh += static_cast<double>(request.new_tokens);
    keys += static_cast<double>(request.new_tokens) + static_cast<double>(request.context);
  }
  const auto size = static_cast<double>(size_of(shape.dtype));
  const double packed_twice = 3.0 * heads * widths * static_cast<double>(kv_lora_rank);
  const auto scratch = static_cast<double>(prefill::OperatorConfig{}.scratch_bytes);
  double longest = 0.0;
  for (const RequestLengths& request : shape.requests) {
    longest = std::max(
        longest, static_cast<double>(request.new_tokens) + static_cast<double>(request.context));
  }
  const double table = static_cast<double>(shape.requests.size()) * longest / kBlockSize * 4.0;
  return size * (fresh * heads * widths + (fresh + keys) * row + packed_twice) +
         fresh * heads * sizeof(float) + table + scratch;
}

OperatorCase::OperatorCase(Shape shape, std::int64_t kv_lora_rank, prefill::Form form)
    : shape_(std::move(shape)), kv_lora_rank_(kv_lora_rank), form_(form) {
  cu_q_ = {0};
  for (const RequestLengths& request : shape_.requests) {
    cu_q_.push_back(cu_q_.back() + request.new_tokens);
    context_.push_back(request.context);
    max_blocks_ = std::max(max_blocks_, blocks_of(request));
    num_blocks_ += blocks_of(request);
  }
}

Result<OperatorCase> OperatorCase::make(
    const Shape& shape, std::int64_t kv_lora_rank,
    std::shared_ptr<const attention::Implementation> implementation, std::uint64_t seed,
    prefill::Form form) {
  OperatorCase made(shape, kv_lora_rank, form);
  const Status allocated = made.allocate(seed);
  if (!allocated.ok()) return allocated.error();
  made.lay_out_cache();
  Result<prefill::Operator> created =
      prefill::Operator::create(made.config(), made.weights(), std::move(implementation));
  if (!created) return created.error();
  made.operator_ = std::move(*created);
  return made;
}

Status OperatorCase::allocate(std::uint64_t seed) {
  const MlaDims& dims = shape_.dims;
  const std::int64_t t = cu_q_.back();
  const std::int64_t heads = shape_.num_heads;
  const std::int64_t rope = dims.qk_rope_head_dim;
  const std::int64_t rank = kv_lora_rank_;
  struct Wanted {
    const char* name;
    std::int64_t count;
    double deviation;  // 0: a result
  };
  const Wanted wanted[kPlaces] = {
      {"q", t * heads * dims.qk_head_dim(), 1.0},
      {"kv_c", t * rank, 1.0},
      {"k_pe", t * rope, 1.0},
      {"the cache", num_blocks_ * kBlockSize * (rank + rope), 1.0},
      {"kv_b_proj", heads * (dims.qk_nope_head_dim + dims.v_head_dim) * rank,
       1.0 / std::sqrt(static_cast<double>(rank))},
      {"out", t * heads * dims.v_head_dim, 0.0},
      {"lse", t * heads, 0.0},
  };
  for (std::size_t place = 0; place < kPlaces; ++place) {
    const DType dtype = place == kLse ? DType::kFloat32 : shape_.dtype;
    Result<Tensor> tensor = Tensor::make(dtype, wanted[place].count, wanted[place].name);
    if (!tensor) return tensor.error();
    if (wanted[place].deviation > 0.0) tensor->fill(seed + place, wanted[place].deviation);
    tensors_.push_back(std::move(*tensor));
  }
  return {};
}

void OperatorCase::lay_out_cache() {
  block_table_.assign(shape_.requests.size() * static_cast<std::size_t>(max_blocks_), 0);
  std::int64_t next = num_blocks_;
  for (std::size_t r = 0; r < shape_.requests.size(); ++r) {
    const RequestLengths& request = shape_.requests[r];
    std::int32_t* table = block_table_.data() + r * static_cast<std::size_t>(max_blocks_);
    for (std::int64_t b = 0; b < blocks_of(request); ++b) {
      table[b] = static_cast<std::int32_t>(--next);
    }
    for (std::int64_t i = 0; i < request.new_tokens; ++i) {
      const std::int64_t at = request.context + i;
      slots_.push_back(table[at / kBlockSize] * kBlockSize + at % kBlockSize);
    }
  }
}

prefill::OperatorConfig OperatorCase::config() const {
  prefill::OperatorConfig config;
  config.num_heads = shape_.num_heads;
  config.dims = shape_.dims;
  config.kv_lora_rank = kv_lora_rank_;
  config.dtype = shape_.dtype;
  config.scale = shape_.scale;
  config.form = form_;
  return config;
}

prefill::Weights OperatorCase::weights() const {
  prefill::Weights weights;
  weights.dtype = shape_.dtype;
  weights.kv_b_proj = tensors_[kWeights].data();
  return weights;
}

prefill::Batch OperatorCase::batch() const {
  prefill::Batch batch;
  batch.num_requests = static_cast<std::int64_t>(context_.size());
  batch.cu_seqlens_q = cu_q_.data();
  batch.context_lens = context_.data();
  batch.block_table = {block_table_.data(), max_blocks_, 0};
  return batch;
}

prefill::RunArgs OperatorCase::args() const {
  const auto memory = [this](Place place) { return const_cast<void*>(tensors_[place].data()); };
  const std::int64_t qk = shape_.dims.qk_head_dim();
  const std::int64_t v = shape_.dims.v_head_dim;
  prefill::RunArgs args;
  args.q = {memory(kQ), shape_.num_heads * qk, qk, nullptr};
  args.kv_c = memory(kKvC);
  args.k_pe = memory(kKPe);
  args.cache = {memory(kCache), num_blocks_, kBlockSize, 0};
  args.slot_mapping = slots_.data();
  args.out = {memory(kOut), shape_.num_heads * v, v, nullptr};
  args.lse = static_cast<float*>(memory(kLse));
  return args;
}

Status OperatorCase::plan(const attention::RunOptions& options) {
  Result<prefill::Plan> planned = operator_->plan(batch(), options);
  if (!planned) return planned.error();
  plan_ = std::move(*planned);
  return {};
}

Status OperatorCase::run() { return operator_->run(*plan_, args()); }

double OperatorCase::flops() const {
  const MlaDims& dims = shape_.dims;
  const auto rank = static_cast<double>(kv_lora_rank_);
  const auto widths = static_cast<double>(dims.qk_head_dim() + dims.v_head_dim);
  const auto latent_widths = 2.0 * rank + static_cast<double>(dims.qk_rope_head_dim);
  const double projection = rank * static_cast<double>(dims.qk_nope_head_dim + dims.v_head_dim);
  double sum = 0.0;
  for (const prefill::RequestPlan& request : plan_->requests) {
    const auto m = static_cast<double>(request.new_tokens);
    const auto context = static_cast<double>(request.context_tokens);
    const double pairs = m * context + m * (m + 1.0) / 2.0;
    if (m == 0.0) continue;
    sum += request.form == prefill::Form::kAbsorbed ? pairs * latent_widths + m * projection
                                                    : pairs * widths + (m + context) * projection;
  }
  return 2.0 * static_cast<double>(shape_.num_heads) * sum;
}

double OperatorCase::latent_bytes() const {
  double keys = 0.0;
  for (const RequestLengths& request : shape_.requests) {
    if (request.new_tokens == 0) continue;
    keys += static_cast<double>(request.new_tokens) + static_cast<double>(request.context);
  }
  return keys * static_cast<double>(kv_lora_rank_ + shape_.dims.qk_rope_head_dim) *
         static_cast<double>(size_of(shape_.dtype));
}

std::vector<std::int64_t> OperatorCase::sampled_tokens() const {
  constexpr std::int64_t kBetween = 2;
  std::vector<std::int64_t> tokens;
  for (std::size_t r = 0; r < context_.size(); ++r) {
    const std::int64_t m = cu_q_[r + 1] - cu_q_[r];
    std::int64_t previous = -1;
    for (std::int64_t i = 0; i <= kBetween + 1 && m > 0; ++i) {
      const std::int64_t row = (m - 1) * i / (kBetween + 1);
      if (row != previous) tokens.push_back(cu_q_[r] + row);
      previous = row;
    }
  }
  return tokens;
}

// From a few thousand values W_UV c, spread over tokens and rows of W_UV.
double OperatorCase::v_rms() const {
  constexpr std::int64_t kValues = 4096;
  const std::int64_t rank = kv_lora_rank_;
  const std::int64_t nope = shape_.dims.qk_nope_head_dim;
  const std::int64_t per_head = nope + shape_.dims.v_head_dim;
  double sum = 0.0;
  for (std::int64_t i = 0; i < kValues; ++i) {
    const std::int64_t token = i % cu_q_.back();
    const std::int64_t head = i % shape_.num_heads;
    const std::int64_t row = head * per_head + nope + i % shape_.dims.v_head_dim;
    double value = 0.0;
    for (std::int64_t l = 0; l < rank; ++l) {
      value += tensors_[kKvC].get(token * rank + l) * tensors_[kWeights].get(row * rank + l);
    }
    sum += value * value;
  }
  return std::sqrt(sum / static_cast<double>(kValues));
}

Status OperatorCase::compare(const std::vector<std::int64_t>& tokens,
                             Comparison& comparison) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t heads = shape_.num_heads;
  const std::int64_t v_dim = shape_.dims.v_head_dim;
  std::vector<double> out(tokens.size() * static_cast<std::size_t>(heads * v_dim));
  std::vector<double> lse(tokens.size() * static_cast<std::size_t>(heads));
  const Status status = prefill::reference(config(), weights(), batch(), args(),
                                           {tokens.data(), count, out.data(), lse.data()});
  if (!status.ok()) return status;
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t token = tokens[static_cast<std::size_t>(s)];
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t e = 0; e < v_dim; ++e) {
        comparison.out(tensors_[kOut].get((token * heads + h) * v_dim + e),
                       out[static_cast<std::size_t>((s * heads + h) * v_dim + e)]);
      }
      comparison.lse(tensors_[kLse].get(h * cu_q_.back() + token),
                     lse[static_cast<std::size_t>(h * count + s)]);
      comparison.count_row();
    }
  }
  return {};
}

Result<Accuracy> OperatorCase::verify() const {
  constexpr std::size_t kAtOnce = 256;  // tokens; bounds the memory of the reference's results
  const std::vector<std::int64_t> tokens = sampled_tokens();
  Comparison comparison(shape_.dtype, v_rms(), KeySource::kProjected);
  for (std::size_t first = 0; first < tokens.size(); first += kAtOnce) {
    const std::size_t last = std::min(first + kAtOnce, tokens.size());
    const std::vector<std::int64_t> some(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                                         tokens.begin() + static_cast<std::ptrdiff_t>(last));
    const Status status = compare(some, comparison);
    if (!status.ok()) return status.error();
  }
  return comparison.accuracy();
}

}  // namespace mla::bench
