// The expanded form of the prefill operator on tiles: a block of latents C becomes a panel.
//
//   K^T = W_UK C^T   rows are dims of K, columns keys;   V = C W_UV^T   rows are keys, columns dims
//
// Either way two rows of a result tile, interleaved, are a row of a B tile of the panel. Packed
// weights: W_UK [nope/32][L/32] cells of A, W_UV [Dv/32][L/32] cells of B. Packed latents: [32
// keys] [L/32] cells of A, the same of B, and the rope part of K [32 keys][rope/32] cells of B.
#pragma once

#include <cstring>

#include "attention/cpu/isa/amx/layout.h"
#include "attention/cpu/isa/amx/tile_product.h"
#include "core/half.h"

namespace mla::attention::cpu {
namespace {

// Rounds the tiles of a product into a cell of B, a row of pairs at a time.
template <class Isa>
struct PairRows {
  static constexpr std::int64_t kRowsAStep = 8;

  const std::byte* c = nullptr;  // [2 columns][32 rows][16]
  std::byte* cell = nullptr;
  std::int64_t row = 32;  // of 2 columns of 16 pairs

  bool fills_step() const { return row <= 32 - kRowsAStep; }
  template <int kSlot>
  [[gnu::always_inline]] void run() {
    one(row + 2 * kSlot);
    one(row + 2 * kSlot + 1);
  }
  void advance_step() { row += kRowsAStep; }
  void finish() {
    for (; row < 32; ++row) one(row);
  }
  [[gnu::always_inline]] void one(std::int64_t r) {
    const std::byte* from = c + r * 128;
    Isa::store_pairs(cell + r * 64, Isa::load(from), Isa::load(from + 64));
  }
};

template <class Isa>
class Projection {
 public:
  explicit Projection(const ProjectionShape& shape)
      : shape_(shape),
        geometry_(shape.shape),
        rope_(shape.shape.qk_head_dim - shape.qk_nope_head_dim),
        nope_cells_((shape.qk_nope_head_dim + 31) / 32),
        rope_cells_((rope_ + 31) / 32),
        l_cells_((shape.kv_lora_rank + 31) / 32) {}

  std::int64_t weight_bytes() const {
    return (nope_cells_ + geometry_.v_cells) * l_cells_ * kCellBytes;
  }
  std::int64_t latent_bytes() const {
    return geometry_.panel_spans * (2 * l_cells_ + rope_cells_) * kCellBytes;
  }

  void pack_weights(const HeadWeights& weights, std::byte* to) const {
    const Matrix uk = {static_cast<const std::byte*>(weights.w_uk), weights.w_uk_stride,
                       shape_.qk_nope_head_dim, weights.dtype};
    const Matrix uv = {static_cast<const std::byte*>(weights.w_uv), weights.w_uv_stride,
                       shape_.shape.v_head_dim, weights.dtype};
    for (std::int64_t d = 0; d < nope_cells_; ++d) {
      pack_rows(uk, d * 32, to);
      to += l_cells_ * kCellBytes;
    }
    for (std::int64_t d = 0; d < geometry_.v_cells; ++d) {
      pack_columns(uv, d * 32, shape_.kv_lora_rank, to);
      to += l_cells_ * kCellBytes;
    }
  }

  bool pack_latents(const void* const* latent_rows, const void* const* rope_rows,
                    std::int64_t count, std::byte* to) const {
    const Matrix latents = {nullptr, 0, count, shape_.latent_dtype, latent_rows};
    const Matrix rope = {nullptr, 0, count, shape_.latent_dtype, rope_rows};
    bool finite = true;
    for (std::int64_t j = 0; j * kSpan < count; ++j) {
      finite &= pack_rows(latents, j * kSpan, to + j * l_cells_ * kCellBytes);
      pack_columns(latents, j * kSpan, shape_.kv_lora_rank,
                   to + (geometry_.panel_spans + j) * l_cells_ * kCellBytes);
      if (rope_ > 0) {
        pack_columns(rope, j * kSpan, rope_,
                     to + (2 * geometry_.panel_spans * l_cells_ + j * rope_cells_) * kCellBytes);
      }
    }
    return finite;
  }

  void project(const std::byte* weights, const std::byte* latents, std::int64_t count,
               std::byte* panel) {
    const std::int64_t spans = (count + kSpan - 1) / kSpan;
    const std::int64_t l_bytes = l_cells_ * kCellBytes;
    const std::byte* columns = latents + geometry_.panel_spans * l_bytes;
    const std::byte* uv = weights + nope_cells_ * l_bytes;
    std::byte* values = panel + geometry_.keys_bytes();
    for (std::int64_t d = 0; d < nope_cells_; ++d) {
      for (std::int64_t j = 0; j < spans; ++j) {
        multiply(weights + d * l_bytes, columns + j * l_bytes,
                 panel + (j * geometry_.qk_cells + d) * kCellBytes);
      }
    }
    for (std::int64_t d = 0; d < geometry_.v_cells; ++d) {
      for (std::int64_t j = 0; j < spans; ++j) {
        multiply(latents + j * l_bytes, uv + d * l_bytes,
                 values + (d * geometry_.panel_spans + j) * kCellBytes);
      }
    }
    product_.flush();
    rows_before().finish();
    add_rope(latents + 2 * geometry_.panel_spans * l_bytes, spans, panel);
  }

 private:
  // Rows of elements, a stride apart or each where `rows` says.
  struct Matrix {
    const std::byte* data;
    std::int64_t stride;
    std::int64_t count;
    DType dtype;
    const void* const* rows = nullptr;
  };

  static std::int64_t clamp(std::int64_t n, std::int64_t limit) {
    return n < 0 ? 0 : n < limit ? n : limit;
  }

  static std::int64_t size_of(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

  static void round(const std::byte* from, DType dtype, std::int64_t n, BFloat16* to) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (dtype == DType::kFloat32) {
        from_float(reinterpret_cast<const float*>(from)[i], to + i);
      } else {
        from_float(to_float(reinterpret_cast<const Float16*>(from)[i]), to + i);
      }
    }
  }

  // Elements [dim, dim + n) of up to 32 rows from row `first`, as bf16: where they lie, or in
  // `room`. Returns how many rows there are.
  static std::int64_t rows_of(const Matrix& m, std::int64_t first, std::int64_t dim, std::int64_t n,
                              BFloat16 (&room)[32][32], const void* (&rows)[32]) {
    const std::int64_t count = clamp(m.count - first, 32);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::byte* row = m.rows ? static_cast<const std::byte*>(m.rows[first + i])
                                    : m.data + (first + i) * m.stride * size_of(m.dtype);
      rows[i] = row + dim * size_of(m.dtype);
      if (m.dtype == DType::kBFloat16) continue;
      round(static_cast<const std::byte*>(rows[i]), m.dtype, n, room[i]);
      rows[i] = room[i];
    }
    return count;
  }

  // 32 rows of L elements as cells of A. True when all are finite.
  bool pack_rows(const Matrix& m, std::int64_t first, std::byte* to) const {
    bool finite = true;
    BFloat16 room[32][32];
    const void* rows[32];
    for (std::int64_t i = 0; i < l_cells_; ++i) {
      const std::int64_t n = clamp(shape_.kv_lora_rank - i * 32, 32);
      const std::int64_t count = rows_of(m, first, i * 32, n, room, rows);
      for (std::int64_t r = 0; r < 32; ++r) {
        finite &= Isa::pack_row(to + i * kCellBytes + r * 64, r < count ? rows[r] : nullptr,
                                r < count ? n : 0);
      }
    }
    return finite;
  }

  // 32 rows of `width` elements as the columns of cells of B.
  static void pack_columns(const Matrix& m, std::int64_t first, std::int64_t width, std::byte* to) {
    BFloat16 room[32][32];
    const void* rows[32];
    for (std::int64_t i = 0; i * 32 < width; ++i) {
      const std::int64_t n = clamp(width - i * 32, 32);
      const std::int64_t count = rows_of(m, first, i * 32, n, room, rows);
      Isa::pack_columns(to + i * kCellBytes, rows, clamp(count, 16), 0, n);
      Isa::pack_columns(to + i * kCellBytes + kTileBytes, rows + 16, clamp(count - 16, 16), 0, n);
    }
  }

  // A product of L/32 cells; its rounded tiles reach the panel during the next one.
  void multiply(const std::byte* a, const std::byte* b, std::byte* cell) {
    auto left = product_.template multiply<false>(a, b, l_cells_, c_[turn_ ^ 1],
                                                  [&] { return rows_before(); });
    left.finish();
    turn_ ^= 1;
    cell_before_ = cell;
  }

  PairRows<Isa> rows_before() const {
    return {c_[turn_], cell_before_, cell_before_ != nullptr ? 0 : 32};
  }

  // The rope part of K; it shares a cell with the nope part where nope is no multiple of 32.
  void add_rope(const std::byte* rope, std::int64_t spans, std::byte* panel) const {
    const std::int64_t nope = shape_.qk_nope_head_dim;
    for (std::int64_t j = 0; j < spans && rope_ > 0; ++j) {
      const std::byte* from = rope + j * rope_cells_ * kCellBytes;
      std::byte* to = panel + j * geometry_.qk_cells * kCellBytes;
      if (nope % 32 == 0) {
        std::memcpy(to + nope / 32 * kCellBytes, from,
                    static_cast<std::size_t>(rope_cells_ * kCellBytes));
        continue;
      }
      for (std::int64_t d = nope; d < geometry_.qk_cells * 32; ++d) {
        for (std::int64_t key = 0; key < kSpan; ++key) {
          std::byte* at = to + element(d, key);
          if (d < nope + rope_) {
            std::memcpy(at, from + element(d - nope, key), 2);
          } else {
            std::memset(at, 0, 2);
          }
        }
      }
    }
  }

  // Where dim d of a key is in cells of B.
  static std::int64_t element(std::int64_t d, std::int64_t key) {
    return d / 32 * kCellBytes + key / 16 * kTileBytes + d % 32 / 2 * 64 + key % 16 * 4 + d % 2 * 2;
  }

  const ProjectionShape& shape_;
  const Geometry geometry_;
  const std::int64_t rope_;
  const std::int64_t nope_cells_;
  const std::int64_t rope_cells_;
  const std::int64_t l_cells_;
  alignas(64) std::byte c_[2][2 * kCellBytes];
  alignas(64) std::byte spill_[2 * kCellBytes];
  TileProduct<Isa> product_{spill_};
  std::byte* cell_before_ = nullptr;  // where the tiles of the last product go
  int turn_ = 0;
};

}  // namespace
}  // namespace mla::attention::cpu
