// Where things lie in the buffers of the tile kernels. A tile is 16 rows of 64 bytes, 1 KiB; a tile
// multiply is C[16][16] float32 += A[16][32] bf16 * B[16 pairs][16][2] bf16. Everything is grouped
// in *cells* of two tiles, so that a product is always two A tiles against two B tiles: each loaded
// tile is used twice and four independent sums hide the latency of the multiply.
//
//   queries  [group of 32 rows][Dq/32] cells of A: 2 x (16 rows x 32 dims), rows as they are
//   keys     [32 keys][Dq/32] cells of B: 2 x (16 dim pairs x 16 keys x 2)
//   values   [Dv/32][panel keys/32] cells of B: 2 x (16 key pairs x 16 dims x 2)
//   state    [group] { o: [Dv/32][2 x 16 dims][32 rows][16] float32, l: 2 x [32][16], base: [32],
//   turn
//   }
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cpu/kernels.h"

namespace mla::attention::cpu {
// Local to each translation unit: what is compiled with an instruction set's flags must not be
// merged by the linker with what is not.
namespace {

inline constexpr std::int64_t kTileBytes = 1024;
inline constexpr std::int64_t kCellBytes = 2 * kTileBytes;
inline constexpr std::int64_t kTileRows = 16;   // of A and C; also columns of B and C
inline constexpr std::int64_t kTileDepth = 32;  // bf16 elements of a row of A
inline constexpr std::int64_t kGroupRows = 32;  // query rows that travel together
inline constexpr std::int64_t kSpan = 32;       // keys of one softmax step
// Keys between two visits of o, which are two passes of 16 KiB through L1.
inline constexpr std::int64_t kStripe = 512;
inline constexpr std::int64_t kStripeSpans = kStripe / kSpan;

// The sums of a group beside o.
struct GroupStats {
  float l[2][kGroupRows][16];  // partial row sums, 16 lanes; two, so that a span can be redone
  float base[kGroupRows];      // what is added to scores, in units of `log2`; kNothing: none seen
  std::int64_t turn;           // which of l is current
  float log2;                  // a unit of base, in log2
  float unused[13];            // keeps the next group on a cache line
};
// Finite, so that a score of -inf weighs 0 from the start.
inline constexpr float kNothing = __FLT_MAX__;

// A group's working memory: scores of two spans, P of a stripe, and a place for the tiles that
// nothing waits for.
struct Scratch {
  std::byte s[2][2 * kCellBytes];
  std::byte p[kStripeSpans][kCellBytes];
  std::byte spill[2 * kCellBytes];
  std::uint32_t seen[kGroupRows];
};

struct Geometry {
  explicit Geometry(const Shape& shape)
      : qk_cells((shape.qk_head_dim + kTileDepth - 1) / kTileDepth),
        v_cells((shape.v_head_dim + 2 * kTileRows - 1) / (2 * kTileRows)) {
    // A panel of up to 512 KiB and a query block of up to 512 KiB share an L2 of 2 MiB.
    panel_spans = kStripeSpans;
    while (panel_spans > 1 && panel_spans * span_bytes() > kMostBytes) panel_spans /= 2;
    groups = 8;
    while (groups > 1 && groups * (group_query_bytes() + group_state_bytes()) > kMostBytes) {
      groups /= 2;
    }
  }

  std::int64_t span_bytes() const { return (qk_cells + v_cells) * kCellBytes; }
  std::int64_t keys_bytes() const { return panel_spans * qk_cells * kCellBytes; }
  std::int64_t group_query_bytes() const { return qk_cells * kCellBytes; }
  std::int64_t group_o_bytes() const { return v_cells * 2 * kCellBytes; }
  std::int64_t group_state_bytes() const {
    return group_o_bytes() + static_cast<std::int64_t>(sizeof(GroupStats));
  }

  static constexpr std::int64_t kMostBytes = 512 * 1024;

  std::int64_t qk_cells;     // steps of 32 dims of q and k
  std::int64_t v_cells;      // steps of 32 dims of v
  std::int64_t panel_spans;  // spans of 32 keys in a panel
  std::int64_t groups;       // groups in a query block
};

}  // namespace
}  // namespace mla::attention::cpu
