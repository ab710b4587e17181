// A small model's layer and some requests for it: random weights and latents, a cache with its
// pages in random places and NaN wherever nobody has written, and what run() needs of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/half.h"
#include "mla/prefill.h"

namespace mla::prefill {

// Values as bytes of a dtype.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, std::int64_t count)
      : dtype_(dtype), bytes_(static_cast<std::size_t>(count * size_of(dtype))) {}
  void set(std::int64_t i, float value) {
    void* to = bytes_.data() + i * size_of(dtype_);
    if (dtype_ == DType::kFloat32) {
      std::memcpy(to, &value, 4);
    } else if (dtype_ == DType::kFloat16) {
      from_float(value, static_cast<Float16*>(to));
    } else {
      from_float(value, static_cast<BFloat16*>(to));
    }
  }
  float get(std::int64_t i) const {
    const void* from = bytes_.data() + i * size_of(dtype_);
    if (dtype_ == DType::kFloat32) return *static_cast<const float*>(from);
    if (dtype_ == DType::kFloat16) return to_float(*static_cast<const Float16*>(from));
    return to_float(*static_cast<const BFloat16*>(from));
  }
  void fill(float value) {
    for (std::int64_t i = 0; i < count(); ++i) set(i, value);
  }
  template <class Engine>
  void randomize(Engine& engine, float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    for (std::int64_t i = 0; i < count(); ++i) set(i, normal(engine));
  }
  std::int64_t count() const { return static_cast<std::int64_t>(bytes_.size()) / size_of(dtype_); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  void* at(std::int64_t i) { return bytes_.data() + i * size_of(dtype_); }
  const void* at(std::int64_t i) const { return bytes_.data() + i * size_of(dtype_); }
  // By bytes: NaN equals itself.
  friend bool operator==(const Tensor&, const Tensor&) = default;

 private:
  DType dtype_ = DType::kFloat32;
  std::vector<char> bytes_;
};

struct WorldConfig {
  std::int64_t num_heads = 3;
  MlaDims dims{16, 8, 16};
  std::int64_t kv_lora_rank = 32;
  DType dtype = DType::kFloat32;
  DType cache_dtype = DType::kFloat32;
  std::int64_t block_size = 16;
  std::uint32_t seed = 1;
  float spread = 1.0f;  // of q: how sharp the softmax is
};

struct Lengths2 {
  std::int64_t new_tokens = 0;
  std::int64_t context_tokens = 0;
};

// One step over requests of the given lengths.
class World {
 public:
  World(const WorldConfig& config, std::vector<Lengths2> requests)
      : config_(config), requests_(std::move(requests)), engine_(config.seed) {
    make_weights();
    make_tokens();
    make_cache();
  }

  OperatorConfig operator_config() const {
    OperatorConfig config;
    config.num_heads = config_.num_heads;
    config.dims = config_.dims;
    config.kv_lora_rank = config_.kv_lora_rank;
    config.dtype = config_.dtype;
    config.cache_dtype = config_.cache_dtype;
    return config;
  }
  Weights weights() const {
    Weights weights;
    weights.dtype = config_.dtype;
    weights.kv_b_proj = kv_b_proj.data();
    return weights;
  }
  Batch batch() const {
    Batch batch;
    batch.num_requests = static_cast<std::int64_t>(requests_.size());
    batch.cu_seqlens_q = cu_seqlens.data();
    batch.context_lens = context_lens.data();
    batch.block_table = {block_table.data(), max_blocks, 0};
    return batch;
  }
  RunArgs args() {
    RunArgs args;
    const std::int64_t dq = config_.dims.qk_head_dim(), dv = config_.dims.v_head_dim;
    args.q = {q.data(), config_.num_heads * dq, dq, nullptr};
    args.kv_c = kv_c.data();
    args.k_pe = k_pe.data();
    args.cache = {cache.data(), num_blocks, config_.block_size, 0};
    args.slot_mapping = slot_mapping.data();
    args.out = {out.data(), config_.num_heads * dv, dv, nullptr};
    args.lse = lse.data();
    return args;
  }
  // What is left from token `first` on.
  RunArgs args_from(std::int64_t first) {
    RunArgs args = this->args();
    const std::int64_t heads = config_.num_heads;
    args.q.data = q.at(first * heads * config_.dims.qk_head_dim());
    args.kv_c = kv_c.at(first * config_.kv_lora_rank);
    args.k_pe = k_pe.at(first * config_.dims.qk_rope_head_dim);
    args.slot_mapping = slot_mapping.data() + first;
    args.out.data = out.at(first * heads * config_.dims.v_head_dim);
    args.lse = nullptr;
    return args;
  }

  // The first request alone, with the same values.
  void keep_first() {
    requests_.resize(1);
    cu_seqlens.resize(2);
    context_lens.resize(1);
  }

  // The same numbers with gaps: between the tokens and heads of q and out (heads outermost), the
  // latents side by side, and blocks apart.
  void spread_out() {
    const std::int64_t tokens = total_tokens(), heads = config_.num_heads;
    const std::int64_t dq = config_.dims.qk_head_dim(), dv = config_.dims.v_head_dim;
    const std::int64_t rank = config_.kv_lora_rank, rope = config_.dims.qk_rope_head_dim;
    Tensor wide_q(config_.dtype, heads * tokens * (dq + 3));
    Tensor joined(config_.dtype, tokens * (rank + rope + 5));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < dq; ++i) {
          wide_q.set((h * tokens + t) * (dq + 3) + i, q.get((t * heads + h) * dq + i));
        }
      }
      for (std::int64_t i = 0; i < rank; ++i) {
        joined.set(t * (rank + rope + 5) + i, kv_c.get(t * rank + i));
      }
      for (std::int64_t i = 0; i < rope; ++i) {
        joined.set(t * (rank + rope + 5) + rank + i, k_pe.get(t * rope + i));
      }
    }
    const std::int64_t block = config_.block_size * row_width();
    Tensor apart(config_.cache_dtype, num_blocks * (block + 11));
    for (std::int64_t i = 0; i < num_blocks * block; ++i) {
      apart.set(i / block * (block + 11) + i % block, cache.get(i));
    }
    q = wide_q;
    kv_c = joined;
    cache = apart;
    out = Tensor(config_.dtype, heads * tokens * (dv + 7));
  }
  RunArgs spread_args() {
    const std::int64_t tokens = total_tokens();
    const std::int64_t dq = config_.dims.qk_head_dim() + 3, dv = config_.dims.v_head_dim + 7;
    RunArgs args = this->args();
    args.q = {q.data(), dq, tokens * dq, nullptr};
    args.out = {out.data(), dv, tokens * dv, nullptr};
    args.kv_c_stride = args.k_pe_stride = row_width() + 5;
    args.k_pe = kv_c.at(config_.kv_lora_rank);
    args.cache.block_stride = config_.block_size * row_width() + 11;
    args.lse = nullptr;
    return args;
  }
  // W_UK and W_UV as views of kv_b_proj.
  Weights split_weights() const {
    const std::int64_t nope = config_.dims.qk_nope_head_dim, dv = config_.dims.v_head_dim;
    Weights weights;
    weights.dtype = config_.dtype;
    weights.w_uk = kv_b_proj.data();
    weights.w_uv = kv_b_proj.at(nope * config_.kv_lora_rank);
    weights.w_uk_head_stride = weights.w_uv_head_stride = (nope + dv) * config_.kv_lora_rank;
    return weights;
  }

  std::int64_t total_tokens() const { return cu_seqlens.back(); }
  std::int64_t row_width() const { return config_.kv_lora_rank + config_.dims.qk_rope_head_dim; }
  const WorldConfig& config() const { return config_; }

  Tensor kv_b_proj, q, kv_c, k_pe, cache, out;
  std::vector<float> lse;
  std::vector<std::int32_t> cu_seqlens;
  std::vector<std::int64_t> context_lens;
  std::vector<std::int32_t> block_table;
  std::vector<std::int64_t> slot_mapping;
  std::int64_t max_blocks = 0;
  std::int64_t num_blocks = 0;

 private:
  void make_weights() {
    const std::int64_t rows =
        config_.num_heads * (config_.dims.qk_nope_head_dim + config_.dims.v_head_dim);
    kv_b_proj = Tensor(config_.dtype, rows * config_.kv_lora_rank);
    kv_b_proj.randomize(engine_, 1.0f / std::sqrt(static_cast<float>(config_.kv_lora_rank)));
  }
  void make_tokens() {
    cu_seqlens.push_back(0);
    for (const Lengths2& request : requests_) {
      cu_seqlens.push_back(static_cast<std::int32_t>(cu_seqlens.back() + request.new_tokens));
      context_lens.push_back(request.context_tokens);
    }
    const std::int64_t tokens = total_tokens(), heads = config_.num_heads;
    q = Tensor(config_.dtype, tokens * heads * config_.dims.qk_head_dim());
    q.randomize(engine_, config_.spread);
    kv_c = Tensor(config_.dtype, tokens * config_.kv_lora_rank);
    kv_c.randomize(engine_, 1.0f);
    k_pe = Tensor(config_.dtype, tokens * config_.dims.qk_rope_head_dim);
    k_pe.randomize(engine_, 1.0f);
    out = Tensor(config_.dtype, tokens * heads * config_.dims.v_head_dim);
    out.fill(std::numeric_limits<float>::quiet_NaN());
    lse.assign(static_cast<std::size_t>(tokens * heads), std::numeric_limits<float>::quiet_NaN());
  }
  // Room for context and new tokens of every request, pages shuffled.
  void make_cache() {
    std::vector<std::int32_t> pages;
    for (const Lengths2& request : requests_) {
      const std::int64_t blocks = pages_of(request);
      max_blocks = std::max(max_blocks, blocks);
      num_blocks += blocks;
    }
    num_blocks += 2;  // nobody's
    for (std::int32_t b = 0; b < num_blocks; ++b) pages.push_back(b);
    std::shuffle(pages.begin(), pages.end(), engine_);
    cache = Tensor(config_.cache_dtype, num_blocks * config_.block_size * row_width());
    cache.fill(std::numeric_limits<float>::quiet_NaN());
    block_table.assign(requests_.size() * static_cast<std::size_t>(max_blocks), -7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::size_t next = 0;
    for (std::size_t r = 0; r < requests_.size(); ++r) {
      const Lengths2& request = requests_[r];
      std::int32_t* row = block_table.data() + r * static_cast<std::size_t>(max_blocks);
      for (std::int64_t b = 0; b < pages_of(request); ++b) row[b] = pages[next++];
      for (std::int64_t key = 0; key < request.context_tokens + request.new_tokens; ++key) {
        const std::int64_t slot =
            row[key / config_.block_size] * config_.block_size + key % config_.block_size;
        if (key >= request.context_tokens) {
          slot_mapping.push_back(slot);
          continue;
        }
        for (std::int64_t i = 0; i < row_width(); ++i) {
          cache.set(slot * row_width() + i, normal(engine_));
        }
      }
    }
  }
  std::int64_t pages_of(const Lengths2& request) const {
    const std::int64_t tokens = request.context_tokens + request.new_tokens;
    return (tokens + config_.block_size - 1) / config_.block_size;
  }

  WorldConfig config_;
  std::vector<Lengths2> requests_;
  std::mt19937 engine_;
};

// ---- Comparison ---------------------------------------------------------------------------------
struct Reference {
  std::vector<double> out;  // [T,H,Dv]
  std::vector<double> lse;  // [H,T]
};

// The error as a share of what section 1 of the attention contract allows, <= 1 when it holds.
inline double allowed_error(DType dtype, double reference) {
  if (dtype == DType::kFloat32) return 2e-5 * (1.0 + std::abs(reference));
  const double ulp = std::ldexp(
      1.0, std::ilogb(std::abs(reference) + 1e-30) - (dtype == DType::kBFloat16 ? 7 : 10));
  return ulp + 1e-2;  // rms(v) is about 1
}

}  // namespace mla::prefill
