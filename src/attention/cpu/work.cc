// Cuts a request into items. The rules and their bounds are the constants below.
#include "attention/cpu/work.h"

#include <algorithm>

namespace mla::attention::cpu {
namespace {

// Panels of a unit that stay in memory for all its query blocks, at most; above, a group of query
// blocks re-packs them, which costs one packing in kGroupBlocks * block_q rows.
constexpr std::int64_t kSharedPanelBytes = std::int64_t{48} << 20;
constexpr std::int64_t kGroupBlocks = 16;
// Panels of a unit that a second cache of 512 KiB cannot keep come from further away for each query
// block: then as many as kWalkBlocks walk over a panel together, in steps of which O and Q are a
// third of the bytes. Fewer where that would leave a worker less than kItemsPerWorker items.
constexpr std::int64_t kNearPanels = 8;
constexpr std::int64_t kWalkBlocks = 6;
constexpr std::int64_t kItemsPerWorker = 16;
// A unit of at most kSplitBlocks query blocks is split over keys, kSplitKeys to an item, when that
// gives two items or more: few rows over a long context would leave threads idle.
constexpr std::int64_t kSplitBlocks = 3;
constexpr std::int64_t kSplitKeys = 2048;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Sum of visible(i) over all queries.
std::int64_t visible_pairs(const Request& request) {
  const std::int64_t queries = request.q_length;
  // Queries before first see nothing, those from full on every key, between it grows by one.
  const std::int64_t first = std::clamp<std::int64_t>(-request.causal_offset, 0, queries);
  const std::int64_t full =
      std::clamp<std::int64_t>(request.k_length - request.causal_offset, 0, queries);
  std::int64_t pairs = (queries - full) * request.k_length;
  if (full > first) {
    pairs += (full - first) * (request.visible(first) + request.visible(full - 1)) / 2;
  }
  return pairs;
}

// Query blocks of an item that walk together over shared panels.
std::int64_t walk_blocks(const Work& work, std::int64_t units, int workers) {
  if (work.panels <= kNearPanels) return 1;
  const std::int64_t most = std::min(kWalkBlocks, work.blocks);
  if (workers <= 1) return most;
  return std::clamp<std::int64_t>(units * work.blocks / (kItemsPerWorker * workers), 1, most);
}

}  // namespace

bool folds_heads(const Args& args) {
  return args.num_heads > 1 && args.k.head_stride == 0 && args.v.head_stride == 0;
}

Work plan_request(const Args& args, const Blocking& blocking, std::int64_t request, int workers) {
  Work work;
  work.index = request;
  work.request = request_of(args, request);
  work.fold = folds_heads(args) ? args.num_heads : 1;
  work.rows = work.request.q_length * work.fold;
  if (work.rows == 0) return work;

  work.visible = work.request.visible(work.request.q_length - 1);
  work.pairs = visible_pairs(work.request) * work.fold;
  work.blocks = ceil_div(work.rows, blocking.block_q);
  work.panels = ceil_div(work.visible, blocking.block_k);
  const std::int64_t split_panels = ceil_div(kSplitKeys, blocking.block_k);
  if (work.blocks <= kSplitBlocks && work.panels >= 2 * split_panels) {
    work.sharing = Sharing::kSplit;
    work.item_blocks = work.blocks;
    work.item_panels = split_panels;
    work.items = ceil_div(work.panels, split_panels);
  } else if (work.panels > kSharedPanelBytes / blocking.panel_bytes) {
    work.sharing = Sharing::kGrouped;
    work.item_blocks = work.blocks < kGroupBlocks ? work.blocks : kGroupBlocks;
    work.items = ceil_div(work.blocks, work.item_blocks);
  } else {
    const std::int64_t units = work.fold == 1 ? args.num_heads : 1;
    work.item_blocks = walk_blocks(work, units, workers);
    work.items = ceil_div(work.blocks, work.item_blocks);
    if (work.items == 1) work.sharing = Sharing::kGrouped;  // one panel serves, in the second cache
  }
  return work;
}

}  // namespace mla::attention::cpu
