// The products of the absorbed form, out = a b, with b packed in the type it is given in: for a few
// rows of a they are bound by reading b, which as bf16 is half of what it would be as float32.
//   b [n / kWidth][k][kWidth], columns beyond n are 0
// An element of out is one running sum over k, whatever rows share the tile.
#pragma once

#include "attention/cpu/panels.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct Matrix {
  using Vec = typename Isa::Vec;
  static constexpr Index kLanes = Isa::kLanes;
  static constexpr Index kWidth = 2 * kLanes;
  static constexpr int kRows = 6;
  static constexpr Index kMaxK = 2048;

  static Index bytes(const MatrixShape& shape) {
    return round_up(round_up(shape.n, kWidth) * shape.k * size(shape.b_dtype), 64);
  }
  static Index size(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

  static void pack(const MatrixShape& shape, const MatrixSource& source, void* packed) {
    const Index element = size(shape.b_dtype);
    char* to = static_cast<char*>(packed);
    for (Index j0 = 0; j0 < shape.n; j0 += kWidth) {
      for (Index i = 0; i < shape.k; ++i) {
        for (Index j = j0; j < j0 + kWidth; ++j, to += element) {
          memset(to, 0, static_cast<size_t>(element));
          if (j >= shape.n) continue;
          memcpy(to,
                 static_cast<const char*>(source.data) +
                     (i * source.k_stride + j * source.n_stride) * element,
                 static_cast<size_t>(element));
        }
      }
    }
  }

  static void multiply(const MatrixShape& shape, const void* packed, const MatrixRows& rows) {
    for_dtype(shape.b_dtype, [&](auto type) {
      for (Index r = 0; r < rows.count; r += kRows) {
        multiply_rows<decltype(type)::kDType>(shape, packed, rows, r);
      }
    });
  }

  // Up to kRows rows from `first` on.
  template <DType B>
  static void multiply_rows(const MatrixShape& shape, const void* packed, const MatrixRows& rows,
                            Index first) {
    alignas(64) float a[kRows * kMaxK];
    const Index count = smaller(kRows, rows.count - first);
    for (Index r = 0; r < count; ++r) {
      for_dtype(shape.a_dtype, [&](auto type) {
        convert_row<Isa, decltype(type)::kDType>(rows.a[first + r], shape.k, a + r * kMaxK);
      });
    }
    const char* b = static_cast<const char*>(packed);
    for (Index j = 0; j < shape.n; j += kWidth, b += shape.k * kWidth * Type<B>::kSize) {
      alignas(64) float tile[kRows * kWidth];
      with_rows<kRows>(count, [&](auto n) { multiply_tile<B, n.kRows>(a, b, shape.k, tile); });
      const Index columns = smaller(kWidth, shape.n - j);
      for (Index r = 0; r < count; ++r) {
        char* const out = static_cast<char*>(rows.out[first + r]) + j * size(shape.out_dtype);
        store_row<Isa>(tile + r * kWidth, 1, columns, shape.out_dtype, out);
      }
    }
  }

  template <DType B, int kCount>
  static void multiply_tile(const float* a, const char* b, Index k, float* tile) {
    constexpr Index kBytes = kLanes * Type<B>::kSize;
    Vec c[kCount][2];
    for (int r = 0; r < kCount; ++r) c[r][0] = c[r][1] = Isa::set(0);
    for (Index i = 0; i < k; ++i, b += 2 * kBytes) {
      const Vec b0 = Isa::template load_as_float<B>(b);
      const Vec b1 = Isa::template load_as_float<B>(b + kBytes);
      for (int r = 0; r < kCount; ++r) {
        const Vec x = Isa::set(a[r * kMaxK + i]);
        c[r][0] = Isa::fma(x, b0, c[r][0]);
        c[r][1] = Isa::fma(x, b1, c[r][1]);
      }
    }
    for (int r = 0; r < kCount; ++r) {
      Isa::store(tile + r * kWidth, c[r][0]);
      Isa::store(tile + r * kWidth + kLanes, c[r][1]);
    }
  }
};

}  // namespace
}  // namespace mla::attention::cpu
