// The expanded form of the prefill operator: from a block of latents straight into a panel.
//   K^T = W_UK C^T, rows are columns of K, so a tile of it is a piece of the transposed panel;
//   V = C W_UV^T, a tile of it is a piece of the panel as it is.
// Packed weights: W_UK [nope, l] row-major, W_UV^T in groups of kNr columns of V. Packed latents: C
// [block_k, l] row-major, C^T in groups of kNr keys, and the rope part of K as the panel has it.
// l is L rounded up to kPack.
#pragma once

#include "attention/cpu/panels.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct Projection {
  using Element = typename Isa::Element;
  using Vec = typename Isa::Vec;
  static constexpr Index kPack = Isa::kPack;
  static constexpr Index kNr = Isa::kNr;
  static constexpr Index kSize = sizeof(Element);

  struct Sizes {
    explicit Sizes(const ProjectionShape& shape)
        : layout(shape.shape),
          nope(shape.qk_nope_head_dim),
          rope(shape.shape.qk_head_dim - nope),
          l(round_up(shape.kv_lora_rank, kPack)),
          rope_words((nope % kPack + rope + kPack - 1) / kPack) {}
    Layout<Isa> layout;
    Index nope, rope, l;
    Index rope_words;  // words of a key that hold rope elements; nope may share the first
  };

  // Rows of L elements in row-major order, l apart.
  template <DType D>
  static void pack_rows(const void* const* rows, Index count, const ProjectionShape& shape,
                        Element* to) {
    const Sizes sizes(shape);
    for (Index r = 0; r < count; ++r, to += sizes.l) {
      if constexpr (kPack == 1) {
        convert_row<Isa, D>(rows[r], shape.kv_lora_rank, to);
      } else {
        copy_row(rows[r], shape.kv_lora_rank, sizes.l, to);
      }
    }
  }

  // Rows transposed, in groups of kNr rows.
  template <DType D>
  static void pack_groups(const void* const* rows, Index count, Index n, Element* to,
                          Index group_stride) {
    constexpr DType kWord = kPack == 1 ? D : DType::kFloat32;
    pack_transposed<Isa, kWord>(rows, count, n * Type<D>::kSize, reinterpret_cast<float*>(to),
                                group_stride / kPack);
  }

  static Index weight_bytes(const ProjectionShape& shape) {
    const Sizes sizes(shape);
    return round_up(sizes.l * (sizes.nope + sizes.layout.dv) * kSize, 64);
  }

  template <DType D>
  static void pack_weights(const ProjectionShape& shape, const HeadWeights& weights,
                           Element* packed) {
    const Sizes sizes(shape);
    const char* const uk = static_cast<const char*>(weights.w_uk);
    const char* const uv = static_cast<const char*>(weights.w_uv);
    for (Index d = 0; d < sizes.nope; ++d) {
      const void* const row = uk + d * weights.w_uk_stride * Type<D>::kSize;
      pack_rows<D>(&row, 1, shape, packed + d * sizes.l);
    }
    packed += sizes.nope * sizes.l;
    memset(static_cast<void*>(packed), 0, static_cast<size_t>(sizes.layout.dv * sizes.l * kSize));
    for (Index d = 0; d < shape.shape.v_head_dim; d += kNr) {
      const void* rows[kNr];
      const Index count = smaller(kNr, shape.shape.v_head_dim - d);
      for (Index i = 0; i < count; ++i) {
        rows[i] = uv + (d + i) * weights.w_uv_stride * Type<D>::kSize;
      }
      pack_groups<D>(rows, count, shape.kv_lora_rank, packed + d * sizes.l, kNr * sizes.l);
    }
  }

  // Where the parts of packed latents are.
  struct Latents {
    Latents(const Sizes& sizes, const void* memory)
        : rows(static_cast<Element*>(const_cast<void*>(memory))),
          groups(rows + sizes.layout.block_k * sizes.l),
          rope(groups + sizes.layout.block_k * sizes.l) {}
    Element* rows;
    Element* groups;
    Element* rope;
  };

  static Index latent_bytes(const ProjectionShape& shape) {
    const Sizes sizes(shape);
    return round_up(sizes.layout.block_k * (2 * sizes.l + sizes.rope_words * kPack) * kSize, 64);
  }

  template <DType D>
  static bool pack_latents(const ProjectionShape& shape, const void* const* latent_rows,
                           const void* const* rope_rows, Index count, void* memory) {
    const Sizes sizes(shape);
    const Latents latents(sizes, memory);
    pack_rows<D>(latent_rows, count, shape, latents.rows);
    pack_groups<D>(latent_rows, count, shape.kv_lora_rank, latents.groups, kNr * sizes.l);
    pack_rope<D>(sizes, rope_rows, count, latents.rope);
    return all_finite(latents.rows, count * sizes.l);
  }

  template <DType D>
  static void pack_rope(const Sizes& sizes, const void* const* rows, Index count, Element* to) {
    const Index group_stride = sizes.rope_words * kPack * kNr;
    if (sizes.nope % kPack == 0) return pack_groups<D>(rows, count, sizes.rope, to, group_stride);
    // The first pair has an element of the nope part: leave it 0 for project() to fill.
    for (Index key = 0; key < count; ++key) {
      const Element* const row = static_cast<const Element*>(rows[key]);
      for (Index i = 0; i < sizes.rope_words * kPack; ++i) {
        Element* const group = to + key / kNr * group_stride;
        group[i / kPack * kNr * kPack + key % kNr * kPack + i % kPack] =
            i == 0 || i > sizes.rope ? Element{} : row[i - 1];
      }
    }
  }

  static bool all_finite(const Element* elements, Index n) {
    float zero_or_nan = 0;
    for (Index i = 0; i < n; ++i) zero_or_nan += to_float(elements[i]) * 0;
    return zero_or_nan == 0;
  }

  static void project(const ProjectionShape& shape, const void* weights, const void* memory,
                      Index count, void* panel) {
    const Sizes sizes(shape);
    const Latents latents(sizes, memory);
    const Element* const uk = static_cast<const Element*>(weights);
    const Element* const uv = uk + sizes.nope * sizes.l;
    Element* const keys = const_cast<Element*>(sizes.layout.keys(panel));
    Element* const values = const_cast<Element*>(sizes.layout.values(panel));
    for (Index key = 0; key < count; key += kNr) {
      Element* const group = keys + key * sizes.layout.dq;
      multiply(sizes, uk, latents.groups + key * sizes.l, sizes.nope, group);
      add_rope(sizes, latents.rope + key * sizes.rope_words * kPack, group);
    }
    for (Index d = 0; d < sizes.layout.dv; d += kNr) {
      multiply(sizes, latents.rows, uv + d * sizes.l, count, values + d * sizes.layout.block_k);
    }
  }

  // to [rows / kPack, kNr, kPack] = A [rows, l] B [l, kNr].
  static void multiply(const Sizes& sizes, const Element* a, const Element* b, Index rows,
                       Element* to) {
    Product<Element> product;
    product.a_stride = sizes.l;
    product.b = b;
    product.c_stride = kNr;
    product.steps = sizes.l / kPack;
    for (Index r = 0; r < rows; r += Isa::kMr) {
      const Index live = smaller(Isa::kMr, rows - r);
      product.a = a + r * sizes.l;
      if constexpr (kPack == 1) {
        product.c = to + r * kNr;
        Isa::template multiply<false>(live, product);
      } else {
        static_assert(Isa::kMr % kPack == 0);
        alignas(64) float tile[(Isa::kMr + 1) * kNr];
        product.c = tile;
        Isa::template multiply<false>(live, product);
        for (Index j = 0; live % 2 != 0 && j < kNr; ++j) tile[live * kNr + j] = 0;
        store_pairs(tile, live, to + r * kNr);
      }
    }
  }

  static void store_pairs(const float* tile, Index rows, Element* to) {
    for (Index r = 0; r < rows; r += 2) {
      for (Index j = 0; j < kNr; j += Isa::kLanes) {
        const Vec pairs =
            Isa::round_pair(Isa::load(tile + r * kNr + j), Isa::load(tile + (r + 1) * kNr + j));
        Isa::store(reinterpret_cast<float*>(to + r * kNr + j * 2), pairs);
      }
    }
  }

  static void add_rope(const Sizes& sizes, const Element* rope, Element* group) {
    const Index shared = sizes.nope % kPack;  // elements of nope in the first word of rope
    Element* const to = group + (sizes.nope - shared) * kNr;
    const Index elements = sizes.rope_words * kPack * kNr;
    if (shared == 0) {
      memcpy(to, rope, static_cast<size_t>(elements * kSize));
    } else {
      for (Index i = 0; i < elements; ++i) {
        if (i >= kNr * kPack || i % kPack != 0) to[i] = rope[i];
      }
    }
  }
};

}  // namespace
}  // namespace mla::attention::cpu
