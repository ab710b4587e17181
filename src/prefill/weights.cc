// Packing of the up-projections.
#include "prefill/weights.h"

#include <fmt/format.h>

#include "prefill/elements.h"

namespace mla::prefill {
namespace {

std::int64_t or_default(std::int64_t stride, std::int64_t contiguous) {
  return stride != 0 ? stride : contiguous;
}

Error no_memory(std::int64_t bytes) {
  return {ErrorCode::kOutOfMemory, "weights",
          fmt::format("no memory for {} bytes of packed weights", bytes)};
}

}  // namespace

WeightsView view_of(const OperatorConfig& config, const Weights& weights) {
  const std::int64_t rank = config.kv_lora_rank;
  const std::int64_t nope = config.dims.qk_nope_head_dim;
  const std::int64_t v_dim = config.dims.v_head_dim;
  WeightsView view;
  view.dtype = weights.dtype;
  if (weights.kv_b_proj != nullptr) {
    const std::int64_t row = or_default(weights.kv_b_proj_stride, rank);
    view.w_uk = weights.kv_b_proj;
    view.w_uv = at(weights.kv_b_proj, weights.dtype, nope * row);
    view.w_uk_row_stride = view.w_uv_row_stride = row;
    view.w_uk_head_stride = view.w_uv_head_stride = (nope + v_dim) * row;
    return view;
  }
  view.w_uk = weights.w_uk;
  view.w_uk_row_stride = or_default(weights.w_uk_row_stride, rank);
  view.w_uk_head_stride = or_default(weights.w_uk_head_stride, nope * view.w_uk_row_stride);
  view.w_uv = weights.w_uv;
  view.w_uv_row_stride = or_default(weights.w_uv_row_stride, rank);
  view.w_uv_head_stride = or_default(weights.w_uv_head_stride, v_dim * view.w_uv_row_stride);
  return view;
}

Status PackedWeights::pack_expanded(const Geometry& geometry, const WeightsView& weights) {
  const cpu::ProjectionShape shape = geometry.projection();
  expanded_bytes_ = align64(geometry.kernels->weight_bytes(shape));
  const std::int64_t bytes = expanded_bytes_ * geometry.num_heads;
  expanded_ = allocate_aligned(bytes);
  if (expanded_ == nullptr) return no_memory(bytes);
  bytes_ += bytes;
  for (std::int64_t h = 0; h < geometry.num_heads; ++h) {
    cpu::HeadWeights head;
    head.w_uk = at(weights.w_uk, weights.dtype, h * weights.w_uk_head_stride);
    head.w_uv = at(weights.w_uv, weights.dtype, h * weights.w_uv_head_stride);
    head.w_uk_stride = weights.w_uk_row_stride;
    head.w_uv_stride = weights.w_uv_row_stride;
    head.dtype = weights.dtype;
    geometry.kernels->pack_weights(shape, head, expanded_.get() + h * expanded_bytes_);
  }
  return {};
}

Status PackedWeights::pack_absorbed(const Geometry& geometry, const WeightsView& weights) {
  const std::int64_t rank = geometry.kv_lora_rank;
  w_uk_shape_ = {geometry.dims.qk_nope_head_dim, rank, geometry.dtype, weights.dtype,
                 geometry.dtype};
  w_uv_shape_ = {rank, geometry.dims.v_head_dim, DType::kFloat32, weights.dtype,
                 geometry.out_dtype};
  const cpu::Kernels& kernels = *geometry.products;
  w_uk_bytes_ = align64(kernels.matrix_bytes(w_uk_shape_));
  w_uv_bytes_ = align64(kernels.matrix_bytes(w_uv_shape_));
  const std::int64_t bytes = (w_uk_bytes_ + w_uv_bytes_) * geometry.num_heads;
  w_uk_ = allocate_aligned(w_uk_bytes_ * geometry.num_heads);
  w_uv_ = allocate_aligned(w_uv_bytes_ * geometry.num_heads);
  if (w_uk_ == nullptr || w_uv_ == nullptr) return no_memory(bytes);
  bytes_ += bytes;
  for (std::int64_t h = 0; h < geometry.num_heads; ++h) {
    kernels.pack_matrix(
        w_uk_shape_,
        {at(weights.w_uk, weights.dtype, h * weights.w_uk_head_stride), weights.w_uk_row_stride, 1},
        w_uk_.get() + h * w_uk_bytes_);
    kernels.pack_matrix(
        w_uv_shape_,
        {at(weights.w_uv, weights.dtype, h * weights.w_uv_head_stride), 1, weights.w_uv_row_stride},
        w_uv_.get() + h * w_uv_bytes_);
  }
  return {};
}

Result<PackedWeights> PackedWeights::pack(const Geometry& geometry, const WeightsView& weights) {
  PackedWeights packed;
  if (geometry.has_expanded) {
    if (Status s = packed.pack_expanded(geometry, weights); !s) return s.error();
  }
  if (geometry.has_absorbed) {
    if (Status s = packed.pack_absorbed(geometry, weights); !s) return s.error();
  }
  return packed;
}

}  // namespace mla::prefill
