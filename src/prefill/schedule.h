// The work of one step, laid out: what plan() makes and run() walks.
//
// Work goes in rounds of three phases; within a phase the units are independent. Round 0 also
// appends to the cache and does everything expanded, which needs no memory of its own between
// phases; absorbed requests share out the rest of the budget, over as many rounds as that takes.
//   queries: q_nope W_UK of the round's absorbed tokens
//   attend:  expanded units; absorbed units, each over one part of the keys
//   outputs: merge of the parts, W_UV
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mla/prefill.h"
#include "prefill/geometry.h"
#include "prefill/workspace.h"

namespace mla::prefill {

// Tokens [begin, end) of an absorbed request within one round. Its token t has the place first + t
// - begin among the round's tokens, and its folded query rows are (t - begin) * H + h.
struct Job {
  std::int64_t request = 0;
  std::int64_t begin = 0;  // counted from the request's first new token
  std::int64_t end = 0;
  std::int64_t parts = 1;
  std::int64_t first = 0;
  std::int64_t partial_row = 0;  // of part 0, in the round's rows of partial results
};

// A piece of work. Which fields count depends on the phase.
struct Unit {
  std::int64_t target = 0;  // expanded: request; absorbed: job; queries, outputs: head
  // append: tokens; expanded: new tokens of the request; absorbed: folded rows of the job; queries,
  // outputs: places in the round
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t head_begin = 0;  // expanded
  std::int64_t head_end = 0;
  std::int64_t part = -1;  // absorbed; -1: the unit is expanded
};

struct Round {
  std::vector<Job> jobs;
  std::vector<Unit> queries;
  std::vector<Unit> attend;  // heaviest first
  std::vector<Unit> outputs;
};

// Where things are in the scratch memory: workers first, then what the phases of a round share.
struct ScratchLayout {
  std::int64_t worker_bytes = 0;
  std::int64_t queries_offset = 0;  // [places*H, L+rope] of the operator's dtype
  std::int64_t partial_offset = 0;  // [partial rows, L] float32
  std::int64_t lse_offset = 0;      // [partial rows] float32
  std::int64_t total_bytes = 0;
};

// A request as run() needs it.
struct RequestShape {
  std::int64_t first_token = 0;
  std::int64_t new_tokens = 0;
  std::int64_t context_tokens = 0;
  std::int64_t unit_rows = 0;  // query rows of a unit, in whole query blocks; absorbed: folded
  std::int64_t keys_per_part = 0;
};

struct PlanState {
  Geometry geometry;
  std::vector<RequestShape> requests;
  BlockTable block_table;
  std::int64_t total_tokens = 0;
  std::int64_t max_context = 0;
  std::vector<Unit> append;
  std::vector<Round> rounds;
  ScratchLayout layout;
  int workers = 1;
  Executor* executor = nullptr;
  std::shared_ptr<Workspace> workspace;
};

}  // namespace mla::prefill
