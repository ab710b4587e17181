// The products in plain C++, for tables without their own: b as float32 in panels of kWidth
// columns, each element of out one running sum over k.
#include "prefill/matrix.h"

#include <algorithm>

#include "prefill/elements.h"
#include "prefill/geometry.h"

namespace mla::prefill {
namespace {

using attention::cpu::Kernels;
using attention::cpu::MatrixRows;
using attention::cpu::MatrixShape;
using attention::cpu::MatrixSource;

constexpr std::int64_t kWidth = 16;

void pack_plain(const MatrixShape& shape, const MatrixSource& source, float* packed) {
  for (std::int64_t j0 = 0; j0 < shape.n; j0 += kWidth) {
    for (std::int64_t i = 0; i < shape.k; ++i) {
      for (std::int64_t j = j0; j < j0 + kWidth; ++j, ++packed) {
        const std::int64_t place = i * source.k_stride + j * source.n_stride;
        *packed = j < shape.n ? load(source.data, shape.b_dtype, place) : 0.0f;
      }
    }
  }
}

void multiply_row(const MatrixShape& shape, const float* packed, const void* a, void* out) {
  for (std::int64_t j0 = 0; j0 < shape.n; j0 += kWidth, packed += shape.k * kWidth) {
    float sums[kWidth] = {};
    for (std::int64_t i = 0; i < shape.k; ++i) {
      const float factor = load(a, shape.a_dtype, i);
      const float* row = packed + i * kWidth;
      for (std::int64_t j = 0; j < kWidth; ++j) sums[j] += factor * row[j];
    }
    const std::int64_t columns = std::min(kWidth, shape.n - j0);
    for (std::int64_t j = 0; j < columns; ++j) store(sums[j], out, shape.out_dtype, j0 + j);
  }
}

}  // namespace

std::int64_t matrix_bytes(const Kernels& kernels, const MatrixShape& shape) {
  if (kernels.matrix_bytes != nullptr) return kernels.matrix_bytes(shape);
  return align64(round_up(shape.n, kWidth) * shape.k * size_of(DType::kFloat32));
}

void pack_matrix(const Kernels& kernels, const MatrixShape& shape, const MatrixSource& source,
                 void* packed) {
  if (kernels.pack_matrix != nullptr) return kernels.pack_matrix(shape, source, packed);
  pack_plain(shape, source, static_cast<float*>(packed));
}

void multiply(const Kernels& kernels, const MatrixShape& shape, const void* packed,
              const MatrixRows& rows) {
  if (kernels.multiply != nullptr) return kernels.multiply(shape, packed, rows);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    multiply_row(shape, static_cast<const float*>(packed), rows.a[i], rows.out[i]);
  }
}

}  // namespace mla::prefill
