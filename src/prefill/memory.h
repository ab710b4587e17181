// A worker's memory for one unit of either form, cut from its share of the scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "prefill/bump.h"
#include "prefill/geometry.h"

namespace mla::prefill {

// Sizes of blocks and buffers, asked from the kernels once.
struct Tiles {
  cpu::Blocking expanded;
  cpu::Blocking absorbed;
  cpu::Blocking few;  // absorbed requests of few rows
  std::int64_t latent_bytes = 0;
  std::int64_t few_rows = 0;  // absorbed: query rows of a unit that take the path for few
  std::int64_t few_bytes = 0;
};

// Keys that the path for few rows is given at a time, and how many of them are given once more, to
// begin the next time: it fetches them meanwhile.
inline constexpr std::int64_t kFewKeys = 576;
inline constexpr std::int64_t kFewKeysAhead = 64;

inline Tiles tiles_of(const Geometry& g) {
  Tiles tiles;
  if (g.has_expanded) {
    tiles.expanded = g.kernels->blocking(g.expanded_shape());
    tiles.latent_bytes = g.kernels->latent_bytes(g.projection());
  }
  if (g.has_absorbed) {
    tiles.absorbed = g.kernels->blocking(g.absorbed_shape());
    tiles.few = g.products->blocking(g.absorbed_shape());
    tiles.few_rows = std::min({g.products->few_rows, tiles.few.block_q, tiles.absorbed.block_q});
    tiles.few_bytes = g.products->few_bytes(g.absorbed_shape());
  }
  return tiles;
}

// Where a key block's rows lie: in the pages, among the new tokens, or copied together.
struct KeyRows {
  const void** latent = nullptr;  // [block_k]
  const void** rope = nullptr;    // [block_k]
  std::byte* copies = nullptr;    // [block_k, L+rope] of the operator's dtype
};

// What attends: query blocks with their states, one behind the other.
struct AttendMemory {
  KeyRows keys;
  std::byte* latents = nullptr;  // expanded only
  std::byte* panel = nullptr;
  std::byte* few = nullptr;  // absorbed only
  std::byte* scratch = nullptr;
  std::int32_t* visible = nullptr;    // [block_q]
  const void** query_rows = nullptr;  // [block_q]
  void** out_rows = nullptr;          // [block_q]
  float** lse_rows = nullptr;         // [block_q]
  std::byte* blocks = nullptr;        // [blocks] of queries and state
  std::int64_t query_bytes = 0;
  std::int64_t block_bytes = 0;  // queries and state

  std::byte* queries(std::int64_t block) const { return blocks + block * block_bytes; }
  std::byte* state(std::int64_t block) const { return queries(block) + query_bytes; }
};

// What only one of the forms needs.
struct FormBytes {
  std::int64_t latents = 0;
  std::int64_t few = 0;
};

inline AttendMemory carve(const Geometry& g, const cpu::Blocking& tile, const FormBytes& form,
                          std::int64_t blocks, Bump* bump) {
  AttendMemory memory;
  const std::int64_t keys = form.few > 0 ? std::max(tile.block_k, kFewKeys) : tile.block_k;
  memory.keys.latent = bump->take<const void*>(keys);
  memory.keys.rope = bump->take<const void*>(keys);
  memory.keys.copies = bump->take<std::byte>(keys * g.row_width() * size_of(g.dtype));
  memory.latents = bump->take<std::byte>(form.latents);
  memory.few = bump->take<std::byte>(form.few);
  memory.panel = bump->take<std::byte>(tile.panel_bytes);
  memory.scratch = bump->take<std::byte>(tile.scratch_bytes);
  memory.visible = bump->take<std::int32_t>(tile.block_q);
  memory.query_rows = bump->take<const void*>(tile.block_q);
  memory.out_rows = bump->take<void*>(tile.block_q);
  memory.lse_rows = bump->take<float*>(tile.block_q);
  memory.query_bytes = align64(tile.query_bytes);
  memory.block_bytes = memory.query_bytes + align64(tile.state_bytes);
  memory.blocks = bump->take<std::byte>(blocks * memory.block_bytes);
  return memory;
}

inline AttendMemory carve_expanded(const Geometry& g, const Tiles& tiles, std::int64_t blocks,
                                   Bump* bump) {
  return carve(g, tiles.expanded, {tiles.latent_bytes, 0}, blocks, bump);
}

inline AttendMemory carve_absorbed(const Geometry& g, const Tiles& tiles, std::int64_t blocks,
                                   Bump* bump) {
  return carve(g, tiles.absorbed, {}, blocks, bump);
}

inline AttendMemory carve_few(const Geometry& g, const Tiles& tiles, Bump* bump) {
  return carve(g, tiles.few, {0, tiles.few_bytes}, 1, bump);
}

// Places of a round that the queries and outputs phases take at a time.
inline constexpr std::int64_t kProductRows = 64;

struct ProductMemory {
  const void** a = nullptr;  // [kProductRows]
  void** out = nullptr;      // [kProductRows]
  float* merged = nullptr;   // [kProductRows, L]
};

inline ProductMemory carve_product(const Geometry& g, Bump* bump) {
  ProductMemory memory;
  memory.a = bump->take<const void*>(kProductRows);
  memory.out = bump->take<void*>(kProductRows);
  memory.merged = bump->take<float>(kProductRows * g.kv_lora_rank);
  return memory;
}

inline std::int64_t product_bytes(const Geometry& g) {
  Bump bump(nullptr);
  carve_product(g, &bump);
  return bump.used();
}

}  // namespace mla::prefill
