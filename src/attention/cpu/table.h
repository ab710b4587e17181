// Makes the table of functions of an Isa type.
#pragma once

#include "attention/cpu/few.h"
#include "attention/cpu/flash.h"
#include "attention/cpu/matrix.h"
#include "attention/cpu/project.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct Table {
  using Element = typename Isa::Element;

  // Pairs are of bf16: other inputs are another table's.
  static bool supports(const Shape& shape) {
    if constexpr (Isa::kPack == 2) return shape.dtype == DType::kBFloat16;
    return shape.dtype == DType::kBFloat16 || shape.dtype == DType::kFloat16 ||
           shape.dtype == DType::kFloat32;
  }

  static Blocking blocking(const Shape& shape) {
    const Layout<Isa> layout(shape);
    Blocking blocking;
    blocking.block_q = layout.block_q;
    blocking.block_k = layout.block_k;
    blocking.query_bytes = layout.query_bytes();
    blocking.state_bytes = Flash<Isa>::state_bytes(layout);
    blocking.panel_bytes = layout.panel_bytes();
    blocking.scratch_bytes = Flash<Isa>::scratch_bytes(layout);
    return blocking;
  }

  static void pack_queries(const Shape& shape, const void* const* rows, Index count,
                           void* queries) {
    const Layout<Isa> layout(shape);
    Element* to = static_cast<Element*>(queries);
    const Index bytes = shape.qk_head_dim * (shape.dtype == DType::kFloat32 ? 4 : 2);
    for (Index r = 0; r < count; ++r, to += layout.dq) {
      if (r + kRowsAhead < count) prefetch_row(rows[r + kRowsAhead], bytes);
      if constexpr (Isa::kPack == 1) {
        for_dtype(shape.dtype, [&](auto type) {
          convert_row<Isa, decltype(type)::kDType>(rows[r], layout.dq, to);
        });
      } else {
        copy_row(rows[r], shape.qk_head_dim, layout.dq, to);
      }
    }
  }

  static bool pack_panel(const Shape& shape, const void* const* k_rows, const void* const* v_rows,
                         Index count, void* panel) {
    const Layout<Isa> layout(shape);
    Element* const values = const_cast<Element*>(layout.values(panel));
    float* const keys = static_cast<float*>(panel);
    const Index k_stride = layout.dq * Isa::kNr;
    const Index v_stride = layout.block_k * Isa::kNr;
    if constexpr (Isa::kPack == 1) {
      return for_dtype(shape.dtype, [&](auto type) {
        constexpr DType D = decltype(type)::kDType;
        pack_transposed<Isa, D>(k_rows, count, shape.qk_head_dim * decltype(type)::kSize, keys,
                                k_stride);
        return pack_columns<Isa, D>(v_rows, count, shape.v_head_dim, values, v_stride);
      });
    } else {
      pack_transposed<Isa, DType::kFloat32>(k_rows, count, shape.qk_head_dim * 2, keys,
                                            k_stride / 2);
      return pack_column_pairs<Isa>(v_rows, count, shape.v_head_dim, values, v_stride);
    }
  }

  // f.operator()<D>() for the dtypes that the panels of this Isa are made from.
  template <class F>
  static auto with_dtype(DType dtype, F f) {
    if constexpr (Isa::kPack == 1) {
      return for_dtype(dtype, f);
    } else {
      return f(Type<DType::kBFloat16>{});
    }
  }

  static void pack_weights(const ProjectionShape& shape, const HeadWeights& weights, void* packed) {
    with_dtype(weights.dtype, [&](auto type) {
      Projection<Isa>::template pack_weights<decltype(type)::kDType>(shape, weights,
                                                                     static_cast<Element*>(packed));
    });
  }

  static bool pack_latents(const ProjectionShape& shape, const void* const* latent_rows,
                           const void* const* rope_rows, Index count, void* latents) {
    return with_dtype(shape.latent_dtype, [&](auto type) {
      return Projection<Isa>::template pack_latents<decltype(type)::kDType>(
          shape, latent_rows, rope_rows, count, latents);
    });
  }

  static constexpr Kernels kernels(const char* name) {
    Kernels table;
    table.name = name;
    table.supports = supports;
    table.blocking = blocking;
    table.pack_queries = pack_queries;
    table.pack_panel = pack_panel;
    table.begin = Flash<Isa>::begin;
    table.step = Flash<Isa>::step;
    table.finish = Flash<Isa>::finish;
    table.weight_bytes = Projection<Isa>::weight_bytes;
    table.pack_weights = pack_weights;
    table.latent_bytes = Projection<Isa>::latent_bytes;
    table.pack_latents = pack_latents;
    table.project = Projection<Isa>::project;
    table.matrix_bytes = Matrix<Isa>::bytes;
    table.pack_matrix = Matrix<Isa>::pack;
    table.multiply = Matrix<Isa>::multiply;
    table.few_rows = Few<Isa>::kMaxRows;
    table.few_bytes = Few<Isa>::bytes;
    table.pack_few = Few<Isa>::pack;
    table.step_few = Few<Isa>::step;
    table.probe_peak = Isa::probe_peak;
    table.rates = Isa::kRates;
    return table;
  }
};

}  // namespace
}  // namespace mla::attention::cpu
