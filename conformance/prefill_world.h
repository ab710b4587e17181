// One step of a small model's layer: random weights and latents, a cache with its pages in random
// places and NaN wherever nobody has written, and the check of a step against the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "prefill.h"

namespace mla::conformance {

struct StepLengths {
  std::int64_t new_tokens = 0;
  std::int64_t context_tokens = 0;
};

struct WorldSpec {
  DType dtype = DType::kFloat32;  // of everything, the cache included
  std::int64_t num_heads = 3;
  MlaDims dims{16, 8, 16};
  std::int64_t kv_lora_rank = 32;
  std::int64_t block_size = 16;
  prefill::Form form = prefill::Form::kAuto;
  std::uint64_t seed = 1;
  std::uint64_t page_seed = 1;  // where the pages lie; the values do not follow from it
  std::vector<StepLengths> requests;
};

std::string to_string(const WorldSpec& spec);

class Elements {
 public:
  Elements() = default;
  Elements(DType dtype, std::int64_t count);
  void set(std::int64_t i, double value);
  double get(std::int64_t i) const;
  void fill(double value);
  std::int64_t count() const { return static_cast<std::int64_t>(bytes_.size()) / size_of(dtype_); }
  std::byte* at(std::int64_t i) { return bytes_.data() + i * size_of(dtype_); }
  // By bytes: NaN equals itself.
  friend bool operator==(const Elements&, const Elements&) = default;

 private:
  DType dtype_ = DType::kFloat32;
  std::vector<std::byte> bytes_;
};

class World {
 public:
  explicit World(WorldSpec spec);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The whole step; its pointers lead into this object.
  PrefillCall call();
  // cu_seqlens[1] tokens of the only request from token *done on, those before being context.
  PrefillCall part(const std::int64_t* done, const std::int32_t* cu_seqlens);

  const WorldSpec& spec() const { return spec_; }
  std::int64_t total_tokens() const { return cu_seqlens.back(); }
  std::int64_t row_width() const { return spec_.kv_lora_rank + spec_.dims.qk_rope_head_dim; }
  // The slot of a token of a request, context first.
  std::int64_t slot(std::size_t request, std::int64_t token) const;
  // Element i of new token t's cache row.
  double latent(std::int64_t t, std::int64_t i) const;
  // Other bits in out, lse or cache.
  bool written(const World& other) const;

  Elements kv_b_proj, q, kv_c, k_pe, cache, out, lse;
  std::vector<std::int32_t> cu_seqlens;
  std::vector<std::int64_t> context_lens;
  std::vector<std::int32_t> block_table;
  std::vector<std::int64_t> slot_mapping;
  std::int64_t max_blocks = 0;
  std::int64_t num_blocks = 0;

 private:
  void make_tokens();
  void place_pages();
  std::int64_t pages_of(const StepLengths& request) const;

  WorldSpec spec_;
};

}  // namespace mla::conformance
