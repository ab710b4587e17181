// What one layer's numbers look like, and what follows from them and from the kernels: the same for
// every step, and for every layer of a model.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/cpu/kernels.h"
#include "mla/core.h"
#include "mla/prefill.h"

namespace mla::prefill {

namespace cpu = attention::cpu;

struct Geometry {
  const cpu::Kernels* kernels = nullptr;
  const cpu::Kernels* products = nullptr;  // W_UK and W_UV of the absorbed form, and its few rows
  std::int64_t num_heads = 0;
  MlaDims dims;
  std::int64_t kv_lora_rank = 0;
  DType dtype = DType::kBFloat16;
  DType out_dtype = DType::kBFloat16;
  DType cache_dtype = DType::kBFloat16;
  float scale = 0.0f;
  std::int64_t scratch_bytes = 0;
  bool has_expanded = false;
  bool has_absorbed = false;

  // Elements of a cache row: [kv_c | k_pe]. Also a folded query's and a latent key's.
  std::int64_t row_width() const { return kv_lora_rank + dims.qk_rope_head_dim; }
  cpu::Shape expanded_shape() const { return {dtype, dims.qk_head_dim(), dims.v_head_dim}; }
  cpu::Shape absorbed_shape() const { return {dtype, row_width(), kv_lora_rank}; }
  cpu::ProjectionShape projection() const {
    return {expanded_shape(), dims.qk_nope_head_dim, kv_lora_rank, dtype};
  }
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }
inline std::int64_t align64(std::int64_t bytes) { return round_up(bytes, 64); }

}  // namespace mla::prefill
