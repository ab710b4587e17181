// One layer's up-projections, packed once for both forms.
#pragma once

#include <cstdint>

#include "mla/core.h"
#include "mla/prefill.h"
#include "prefill/geometry.h"
#include "prefill/workspace.h"

namespace mla::prefill {

// W_UK and W_UV with every stride filled in, whichever way they were given.
struct WeightsView {
  DType dtype = DType::kBFloat16;
  const void* w_uk = nullptr;
  std::int64_t w_uk_head_stride = 0;
  std::int64_t w_uk_row_stride = 0;
  const void* w_uv = nullptr;
  std::int64_t w_uv_head_stride = 0;
  std::int64_t w_uv_row_stride = 0;
};
WeightsView view_of(const OperatorConfig& config, const Weights& weights);

class PackedWeights {
 public:
  static Result<PackedWeights> pack(const Geometry& geometry, const WeightsView& weights);

  const void* expanded(std::int64_t head) const { return expanded_.get() + head * expanded_bytes_; }
  // q_nope [.,nope] W_UK -> [.,L]; o [.,L] W_UV^T -> [.,Dv]
  const void* w_uk(std::int64_t head) const { return w_uk_.get() + head * w_uk_bytes_; }
  const void* w_uv(std::int64_t head) const { return w_uv_.get() + head * w_uv_bytes_; }
  const cpu::MatrixShape& w_uk_shape() const { return w_uk_shape_; }
  const cpu::MatrixShape& w_uv_shape() const { return w_uv_shape_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Status pack_expanded(const Geometry& geometry, const WeightsView& weights);
  Status pack_absorbed(const Geometry& geometry, const WeightsView& weights);

  AlignedBytes expanded_, w_uk_, w_uv_;
  std::int64_t expanded_bytes_ = 0, w_uk_bytes_ = 0, w_uv_bytes_ = 0;
  cpu::MatrixShape w_uk_shape_, w_uv_shape_;
  std::int64_t bytes_ = 0;
};

}  // namespace mla::prefill
