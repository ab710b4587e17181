// Checks of the operator's configuration, weights and batch.
#include "prefill/validate.h"

#include <cmath>

#include "prefill/limits.h"

namespace mla::prefill {
namespace {

struct Range {
  const char* field;
  std::int64_t value, low, high;
};

template <std::size_t N>
Status check_ranges(const Range (&ranges)[N]) {
  for (const Range& range : ranges) {
    if (range.value < range.low || range.value > range.high) {
      return out_of_range(range.field, range.value, range.low, range.high);
    }
  }
  return {};
}

Status check_weight(const char* field, const void* data, DType dtype) {
  if (data == nullptr) return invalid(field, fmt::format("{} is null", field));
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % static_cast<std::uintptr_t>(size_of(dtype)) == 0) return {};
  return invalid(field, fmt::format("{} is at {:#x}; wanted a multiple of {}", field, address,
                                    size_of(dtype)));
}

}  // namespace

Status check_config(const OperatorConfig& config) {
  const MlaDims& dims = config.dims;
  const Range ranges[] = {{"num_heads", config.num_heads, 1, kMaxHeads},
                          {"qk_nope_head_dim", dims.qk_nope_head_dim, 0, kMaxDim},
                          {"qk_rope_head_dim", dims.qk_rope_head_dim, 0, kMaxDim},
                          {"v_head_dim", dims.v_head_dim, 1, kMaxDim},
                          {"kv_lora_rank", config.kv_lora_rank, 1, kMaxDim}};
  if (Status s = check_ranges(ranges); !s) return s;
  if (dims.qk_head_dim() < 1 || dims.qk_head_dim() > kMaxDim) {
    return invalid("dims", fmt::format("qk_nope_head_dim + qk_rope_head_dim is {}; wanted 1 to {}",
                                       dims.qk_head_dim(), kMaxDim));
  }
  if (!is_float(config.dtype)) return wrong_dtype("dtype", config.dtype);
  const DType out = config.out_dtype.value_or(config.dtype);
  if (out != config.dtype && out != DType::kFloat32) {
    return invalid("out_dtype", fmt::format("out_dtype is {}; wanted {} or float32", mla::name(out),
                                            mla::name(config.dtype)));
  }
  const DType cache = config.cache_dtype.value_or(config.dtype);
  if (!is_float(cache)) return wrong_dtype("cache_dtype", cache);
  if (std::isinf(config.scale)) {
    return invalid("scale", fmt::format("scale is {}; wanted a finite number, or NaN for Dq^-0.5",
                                        config.scale));
  }
  if (config.form > Form::kAbsorbed) return invalid("form", "form is none of the three");
  if (config.scratch_bytes < 1) {
    return invalid("scratch_bytes",
                   fmt::format("scratch_bytes is {}; wanted at least 1", config.scratch_bytes));
  }
  return {};
}

Status check_weights(const OperatorConfig& config, const Weights& weights) {
  if (!is_float(weights.dtype)) return wrong_dtype("weights.dtype", weights.dtype);
  const Range strides[] = {{"w_uk_head_stride", weights.w_uk_head_stride, -kMaxTokens, kMaxTokens},
                           {"w_uk_row_stride", weights.w_uk_row_stride, -kMaxTokens, kMaxTokens},
                           {"w_uv_head_stride", weights.w_uv_head_stride, -kMaxTokens, kMaxTokens},
                           {"w_uv_row_stride", weights.w_uv_row_stride, -kMaxTokens, kMaxTokens},
                           {"kv_b_proj_stride", weights.kv_b_proj_stride, -kMaxTokens, kMaxTokens}};
  if (Status s = check_ranges(strides); !s) return s;
  if (weights.kv_b_proj != nullptr) {
    if (weights.w_uk != nullptr || weights.w_uv != nullptr) {
      return invalid("kv_b_proj", "kv_b_proj and w_uk, w_uv are given; wanted one of the two");
    }
    return check_weight("kv_b_proj", weights.kv_b_proj, weights.dtype);
  }
  if (config.dims.qk_nope_head_dim > 0) {
    if (Status s = check_weight("w_uk", weights.w_uk, weights.dtype); !s) return s;
  }
  return check_weight("w_uv", weights.w_uv, weights.dtype);
}

Status check_batch(const Batch& batch) {
  const Range ranges[] = {
      {"num_requests", batch.num_requests, 0, kMaxTokens},
      {"block_table.max_blocks", batch.block_table.max_blocks, 0, kMaxTokens},
      {"block_table.row_stride", batch.block_table.row_stride, -kMaxTokens, kMaxTokens}};
  if (Status s = check_ranges(ranges); !s) return s;
  if (batch.num_requests == 0) return {};
  if (batch.cu_seqlens_q.null()) return invalid("cu_seqlens_q", "cu_seqlens_q is null");
  if (batch.cu_seqlens_q[0] != 0) {
    return invalid("cu_seqlens_q",
                   fmt::format("cu_seqlens_q[0] is {}; wanted 0", batch.cu_seqlens_q[0]));
  }
  for (std::int64_t r = 0; r < batch.num_requests; ++r) {
    const std::int64_t next = batch.cu_seqlens_q[r + 1];
    if (next < batch.cu_seqlens_q[r] || next > kMaxTokens) {
      return invalid("cu_seqlens_q", fmt::format("cu_seqlens_q[{}] is {}; wanted {} to {}", r + 1,
                                                 next, batch.cu_seqlens_q[r], kMaxTokens));
    }
    if (batch.context_lens.null()) continue;
    const std::int64_t context = batch.context_lens[r];
    if (context < 0 || context > kMaxTokens) {
      return invalid("context_lens",
                     fmt::format("context_lens[{}] is {}; wanted 0 to {}", r, context, kMaxTokens));
    }
    if (context > 0 && (batch.block_table.data == nullptr || batch.block_table.max_blocks == 0)) {
      return invalid("block_table",
                     fmt::format("block_table is empty, yet context_lens[{}] is {}", r, context));
    }
  }
  return {};
}

}  // namespace mla::prefill
