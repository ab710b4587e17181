// What there is to do in a call, request by request, before any thread starts: which keys a row
// sees, into how many items the request is cut, and where its packed panels live. How many query
// blocks an item has may depend on the number of workers, as no bit depends on it; where a sum over
// keys is cut depends on lengths, shape and kernels only.
#pragma once

#include <cstdint>

#include "attention/cpu/kernels.h"
#include "attention/ragged.h"
#include "mla/attention.h"

namespace mla::attention::cpu {

enum class Sharing : std::uint8_t {
  kShared,   // an item is query blocks; all items of a unit share its panels, kept until its end
  kGrouped,  // an item is a group of query blocks that walk together over panels packed for them
  kSplit,    // an item is all query blocks and a range of keys; partial results are merged
};

// One request; its units (one a head, or one where the heads are folded) are alike.
struct Work {
  std::int64_t index = 0;  // of the request
  Request request;
  std::int64_t rows = 0;  // query rows of a unit: q_length, times the heads where they are folded
  std::int64_t fold = 1;  // heads in a unit; row = token * fold + head
  std::int64_t visible = 0;  // keys that the last row sees: the most of any row
  std::int64_t pairs = 0;    // visible query-key pairs of a unit
  std::int64_t blocks = 0;   // query blocks of a unit
  std::int64_t panels = 0;   // panels of a unit
  Sharing sharing = Sharing::kShared;
  std::int64_t items = 0;        // of a unit
  std::int64_t item_blocks = 1;  // query blocks of an item
  std::int64_t item_panels = 0;  // kSplit: panels of an item
};

// Whether all heads of a request are one unit: they share K and V.
bool folds_heads(const Args& args);

// workers: as many as may take part.
Work plan_request(const Args& args, const Blocking& blocking, std::int64_t request, int workers);

}  // namespace mla::attention::cpu
