// The functions of a Kernels table over tiles, generic over Isa: packing, the walk over the groups
// of a query block, and the results. The attention itself is in flash_tiles.h.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "attention/cpu/isa/amx/flash_tiles.h"
#include "attention/cpu/isa/amx/layout.h"
#include "attention/cpu/isa/amx/project_tiles.h"
#include "attention/cpu/panels.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct TileKernels {
  static bool supports(const Shape& shape) { return shape.dtype == DType::kBFloat16; }

  static Blocking blocking(const Shape& shape) {
    const Geometry geometry(shape);
    return {.block_q = geometry.groups * kGroupRows,
            .block_k = geometry.panel_spans * kSpan,
            .query_bytes = geometry.groups * geometry.group_query_bytes(),
            .state_bytes = geometry.groups * geometry.group_state_bytes(),
            .panel_bytes = geometry.panel_spans * geometry.span_bytes(),
            .scratch_bytes = sizeof(Scratch)};
  }

  static void pack_queries(const Shape& shape, const void* const* rows, std::int64_t count,
                           void* queries) {
    const Geometry geometry(shape);
    auto* to = static_cast<std::byte*>(queries);
    const std::int64_t groups = (count + kGroupRows - 1) / kGroupRows;
    for (std::int64_t r = 0; r < groups * kGroupRows; ++r) {
      std::byte* row = to + r / kGroupRows * geometry.group_query_bytes() +
                       r % kGroupRows / kTileRows * kTileBytes + r % kTileRows * 64;
      const auto* from = r < count ? static_cast<const std::byte*>(rows[r]) : nullptr;
      if (r + kRowsAhead < count) prefetch_row(rows[r + kRowsAhead], shape.qk_head_dim * 2);
      for (std::int64_t i = 0; i < geometry.qk_cells; ++i) {
        const std::int64_t n = from ? at_most(shape.qk_head_dim - i * kTileDepth, kTileDepth) : 0;
        Isa::pack_row(row + i * kCellBytes, n > 0 ? from + i * kTileDepth * 2 : nullptr, n);
      }
    }
  }

  static bool pack_panel(const Shape& shape, const void* const* k_rows, const void* const* v_rows,
                         std::int64_t count, void* panel) {
    const Geometry geometry(shape);
    auto* keys = static_cast<std::byte*>(panel);
    std::byte* values = keys + geometry.keys_bytes();
    bool finite = true;
    for (std::int64_t j = 0; j * kSpan < count; ++j) {
      const std::int64_t first = j * kSpan;
      const std::int64_t next = first + kSpan;
      const std::int64_t ahead = at_most(count - next, kSpan);
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t key = first + half * kTileRows;
        const std::int64_t n = at_most(count - key, kTileRows);
        for (std::int64_t i = 0; i < geometry.qk_cells; ++i) {
          std::byte* tile = keys + (j * geometry.qk_cells + i) * kCellBytes + half * kTileBytes;
          prefetch(k_rows + next + half * kTileRows, at_most(ahead - half * kTileRows, kTileRows),
                   i * 64);
          Isa::pack_columns(tile, k_rows + key, n, i * kTileDepth,
                            at_most(shape.qk_head_dim - i * kTileDepth, kTileDepth));
        }
      }
      for (std::int64_t d = 0; d < geometry.v_cells; ++d) {
        std::byte* cell = values + (d * geometry.panel_spans + j) * kCellBytes;
        prefetch(v_rows + next, ahead, d * 64);
        finite &= Isa::pack_pairs(cell, v_rows + first, at_most(count - first, kSpan), d * 32,
                                  at_most(shape.v_head_dim - d * 32, 32));
      }
    }
    return finite;
  }

  static void begin(const Shape& shape, std::int64_t rows, void* state) {
    const Geometry geometry(shape);
    auto* group = static_cast<std::byte*>(state);
    for (std::int64_t r = 0; r < rows; r += kGroupRows) {
      std::memset(group, 0, static_cast<std::size_t>(geometry.group_state_bytes()));
      auto* stats = reinterpret_cast<GroupStats*>(group + geometry.group_o_bytes());
      for (float& base : stats->base) base = kNothing;
      group += geometry.group_state_bytes();
    }
  }

  static void step(const Shape& shape, float scale, const Step& step, void* state, void* scratch) {
    const Geometry geometry(shape);
    GroupStep<Isa> group_step(geometry, scale, scratch);
    const auto* queries = static_cast<const std::byte*>(step.queries);
    auto* group = static_cast<std::byte*>(state);
    for (std::int64_t r = 0; r < step.rows; r += kGroupRows) {
      const std::int64_t rows = at_most(step.rows - r, kGroupRows);
      const std::int32_t* visible = step.visible ? step.visible + r : nullptr;
      // Rows that all see the whole panel need no mask.
      if (visible && visible[0] >= step.keys) visible = nullptr;
      group_step.run(queries, step, visible, rows, group);
      queries += geometry.group_query_bytes();
      group += geometry.group_state_bytes();
    }
    group_step.flush();
  }

  static void finish(const Shape& shape, std::int64_t rows, const void* state, DType out_dtype,
                     void* const* out_rows, float* const* lse_rows) {
    const Geometry geometry(shape);
    const std::int64_t out_bytes = shape.v_head_dim * (out_dtype == DType::kFloat32 ? 4 : 2);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::byte* group =
          static_cast<const std::byte*>(state) + r / kGroupRows * geometry.group_state_bytes();
      const auto* stats = reinterpret_cast<const GroupStats*>(group + geometry.group_o_bytes());
      const std::int64_t row = r % kGroupRows;
      const float l = Isa::reduce_add(
          Isa::load(reinterpret_cast<const std::byte*>(stats->l[stats->turn][row])));
      // A row that has seen nothing: o is 0 and stays it.
      const float factor = l == 0.0f ? 0.0f : 1.0f / l;
      if (r + kRowsAhead < rows) prefetch_row(out_rows[r + kRowsAhead], out_bytes);
      write_row(group + row * 64, Isa::set1(factor), shape.v_head_dim, out_dtype, out_rows[r]);
      if (lse_rows && lse_rows[r]) {
        *lse_rows[r] = lse(l, static_cast<double>(stats->base[row]) * stats->log2);
      }
    }
  }

  static std::int64_t weight_bytes(const ProjectionShape& shape) {
    return Projection<Isa>(shape).weight_bytes();
  }
  static void pack_weights(const ProjectionShape& shape, const HeadWeights& weights, void* packed) {
    Projection<Isa>(shape).pack_weights(weights, static_cast<std::byte*>(packed));
  }
  static std::int64_t latent_bytes(const ProjectionShape& shape) {
    return Projection<Isa>(shape).latent_bytes();
  }
  static bool pack_latents(const ProjectionShape& shape, const void* const* latent_rows,
                           const void* const* rope_rows, std::int64_t count, void* latents) {
    return Projection<Isa>(shape).pack_latents(latent_rows, rope_rows, count,
                                               static_cast<std::byte*>(latents));
  }
  static void project(const ProjectionShape& shape, const void* weights, const void* latents,
                      std::int64_t count, void* panel) {
    Projection<Isa>(shape).project(static_cast<const std::byte*>(weights),
                                   static_cast<const std::byte*>(latents), count,
                                   static_cast<std::byte*>(panel));
  }

  // The table, but for the probe.
  static constexpr Kernels kernels() {
    Kernels table = {};
    table.name = Isa::kName;
    table.supports = supports;
    table.blocking = blocking;
    table.enter_thread = Isa::enter_thread;
    table.leave_thread = Isa::leave_thread;
    table.pack_queries = pack_queries;
    table.pack_panel = pack_panel;
    table.begin = begin;
    table.step = step;
    table.finish = finish;
    table.weight_bytes = weight_bytes;
    table.pack_weights = pack_weights;
    table.latent_bytes = latent_bytes;
    table.pack_latents = pack_latents;
    table.project = project;
    return table;
  }

 private:
  // Of a row whose weights sum to l, relative to a base in log2. Beyond the range of float it is
  // the nearest number: an infinite lse means a row that sees nothing.
  static float lse(float l, double base) {
    if (l == 0.0f) return -kInfinity;
    const double exact = ::log(static_cast<double>(l)) - kLogWeightScale - base * kLn2Exact;
    constexpr double kMost = __FLT_MAX__;
    return static_cast<float>(exact > kMost ? kMost : exact < -kMost ? -kMost : exact);
  }

  // A row of o, its tiles kCellBytes apart.
  static void write_row(const std::byte* o, typename Isa::Vec factor, std::int64_t n, DType dtype,
                        void* to) {
    auto* out = static_cast<std::byte*>(to);
    for (std::int64_t d = 0; d < n; d += 32, o += 2 * kCellBytes) {
      const auto x0 = Isa::mul(Isa::load(o), factor);
      const auto x1 = Isa::mul(Isa::load(o + kCellBytes), factor);
      if (dtype == DType::kFloat32) {
        Isa::store_some(out + d * 4, x0, at_most(n - d, 16));
        Isa::store_some(out + d * 4 + 64, x1, at_most(n - d - 16, 16));
      } else {
        Isa::store_bf16_some(out + d * 2, x0, x1, at_most(n - d, 32));
      }
    }
  }

  static constexpr double kLn2Exact = 0.69314718055994530942;

  // The caller's rows lie a token apart, often each on a page of its own: without a hint a core
  // waits for nearly every one.
  static constexpr std::int64_t kRowsAhead = 16;

  static void prefetch(const void* const* rows, std::int64_t count, std::int64_t byte) {
    for (std::int64_t r = 0; r < count; ++r) {
      __builtin_prefetch(static_cast<const std::byte*>(rows[r]) + byte, 0, 2);
    }
  }

  static std::int64_t at_most(std::int64_t n, std::int64_t limit) {
    return n < 0 ? 0 : n < limit ? n : limit;
  }
};

}  // namespace
}  // namespace mla::attention::cpu
