// The work list of a plan whose requests have their forms and sizes.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "mla/prefill.h"
#include "prefill/memory.h"
#include "prefill/schedule.h"

namespace mla::prefill {

// Parts of an absorbed request's keys.
inline std::int64_t parts_of(const RequestPlan& request) {
  const std::int64_t keys = request.new_tokens + request.context_tokens;
  return request.keys_per_part > 0 ? ceil_div(keys, request.keys_per_part) : 1;
}

// Folded query rows of an absorbed unit, where there are as many.
inline constexpr std::int64_t kFoldedChunk = 512;

// Shared bytes of one token of an absorbed request: its queries, and its results in each part.
inline std::int64_t absorbed_token_bytes(const Geometry& g, std::int64_t parts) {
  const std::int64_t partial = (g.kv_lora_rank + 1) * size_of(DType::kFloat32);
  return g.num_heads * (g.row_width() * size_of(g.dtype) + parts * partial);
}
inline constexpr std::int64_t kSharedSlack = 3 * 64;  // the three shared pieces, each rounded up

// Tokens after which folded rows start a query block again. An absorbed request is cut into rounds
// only there, so that the cuts do not show in its bits.
inline std::int64_t token_quantum(const Geometry& g, const Tiles& tiles) {
  return tiles.absorbed.block_q / std::gcd(tiles.absorbed.block_q, g.num_heads);
}

struct UnitInputs {
  const Tiles& tiles;
  const std::vector<RequestPlan>& requests;
  std::int64_t shared_bytes = 0;  // for a round
};

// Fills append, rounds and layout; geometry, workers and layout.worker_bytes are there.
void lay_out_units(const UnitInputs& inputs, PlanState* state);

}  // namespace mla::prefill
