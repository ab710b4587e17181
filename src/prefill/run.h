// What the units of one run share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mla/prefill.h"
#include "prefill/memory.h"
#include "prefill/schedule.h"
#include "prefill/weights.h"

namespace mla::prefill {

struct RunContext {
  const PlanState& state;
  const Geometry& geometry;
  const Tiles& tiles;
  const PackedWeights& weights;
  RunArgs args;  // strides filled in
  std::byte* scratch = nullptr;
  std::byte* worker_memory(int worker) const {
    return scratch + worker * state.layout.worker_bytes;
  }
};

// Cache rows of the unit's tokens, where their slots are not negative.
void append_tokens(const RunContext& run, const Unit& unit);

// Points keys->latent[i] and rope[i] at key first + i of the request, count of them. Rows of a
// cache of another dtype are converted into keys->copies.
void gather_keys(const RunContext& run, std::int64_t request, std::int64_t first,
                 std::int64_t count, const KeyRows& keys);
// The same with latent and rope contiguous behind latent[i].
void gather_joined_keys(const RunContext& run, std::int64_t request, std::int64_t first,
                        std::int64_t count, const KeyRows& keys);

// One unit of the attend phase.
void attend_expanded(const RunContext& run, const Unit& unit, std::byte* memory);
void attend_absorbed(const RunContext& run, const Round& round, const Unit& unit,
                     std::byte* memory);

// The phases around it, for the absorbed tokens of a round: unit.target is a head, its range are
// places in the round.
void make_queries(const RunContext& run, const Round& round, const Unit& unit, std::byte* memory);
void make_outputs(const RunContext& run, const Round& round, const Unit& unit, std::byte* memory);

}  // namespace mla::prefill
