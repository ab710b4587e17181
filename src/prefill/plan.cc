// plan(): a form for each request, memory for workers and rounds, then the units.
//
// What changes a request's bits (query block edges, key parts) follows from its own lengths and the
// configuration; what does not (chunks, head groups, rounds) may follow from workers and batch.
#include "prefill/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "prefill/cost_model.h"
#include "prefill/limits.h"
#include "prefill/units.h"

namespace mla::prefill {
namespace {

constexpr std::int64_t kMaxHeadGroup = 8;  // packing latents is then a few percent of projecting
constexpr std::int64_t kWorkerWish = std::int64_t{32} << 20;

// Absorbed: parts of the keys, so that few rows still make work for many cores. A part's partial
// results are written and read again, which these lengths keep to a few percent of its work.
constexpr std::int64_t kWantedUnits = 16;
constexpr std::int64_t kFewRows = 64;
constexpr std::int64_t kLeastKeysFew = 1024;
constexpr std::int64_t kLeastKeys = 2048;

class Planner {
 public:
  Planner(const PlanInputs& inputs, const Batch& batch)
      : g_(*inputs.geometry), tiles_(*inputs.tiles), form_(inputs.form), batch_(batch) {}

  Result<Plan> make(const attention::RunOptions& options);

 private:
  std::int64_t expanded_bytes(std::int64_t blocks) const {
    Bump bump(nullptr);
    carve_expanded(g_, tiles_, blocks, &bump);
    return bump.used();
  }
  std::int64_t absorbed_bytes(std::int64_t blocks) const {
    Bump bump(nullptr);
    carve_absorbed(g_, tiles_, blocks, &bump);
    return bump.used();
  }
  // At least, for an absorbed request of any number of rows.
  std::int64_t least_absorbed_worker() const {
    Bump bump(nullptr);
    carve_few(g_, tiles_, &bump);
    return std::max({absorbed_bytes(1), bump.used(), product_bytes(g_)});
  }
  std::int64_t least_shared(const RequestPlan& request) const {
    return kSharedSlack + std::min(token_quantum(g_, tiles_), request.new_tokens) *
                              absorbed_token_bytes(g_, parts_of(request));
  }
  bool fits_expanded() const { return g_.has_expanded && expanded_bytes(1) <= g_.scratch_bytes; }
  // A batch may hold requests of both forms: a worker must have room for either.
  std::int64_t least_absorbed(const RequestPlan& request) const {
    const bool mixed = form_ == Form::kAuto && fits_expanded();
    return std::max(least_absorbed_worker(), mixed ? expanded_bytes(1) : 0) + least_shared(request);
  }
  bool fits_absorbed(const RequestPlan& request) const {
    return g_.has_absorbed && least_absorbed(request) <= g_.scratch_bytes;
  }

  Status choose(RequestPlan* request) const;
  void split_keys(RequestPlan* request) const;
  Status choose_all();
  Status share_budget(const attention::RunOptions& options);
  void size_units();
  // The most a unit may take on.
  struct Caps {
    std::int64_t heads = kMaxHeadGroup;
    std::int64_t blocks = kMaxTokens;
  };
  std::int64_t size_request(std::size_t r, const Caps& caps);

  const Geometry& g_;
  const Tiles& tiles_;
  const Form form_;
  const Batch& batch_;
  Plan plan_;
  std::shared_ptr<PlanState> state_;
  std::int64_t shared_bytes_ = 0;
};

void Planner::split_keys(RequestPlan* request) const {
  const std::int64_t keys = request->new_tokens + request->context_tokens;
  request->keys_per_part = std::max<std::int64_t>(keys, 1);
  if (request->form != Form::kAbsorbed || !g_.has_absorbed) return;
  const std::int64_t rows = request->new_tokens * g_.num_heads;
  const std::int64_t wanted = ceil_div(kWantedUnits, ceil_div(rows, kFoldedChunk));
  const std::int64_t most = keys / (rows <= kFewRows ? kLeastKeysFew : kLeastKeys);
  const std::int64_t parts = std::clamp<std::int64_t>(most, 1, wanted);
  const std::int64_t whole = request->keys_per_part;
  if (parts == 1) return;
  request->keys_per_part = round_up(ceil_div(keys, parts), tiles_.absorbed.block_k);
  if (least_shared(*request) > g_.scratch_bytes / 2) request->keys_per_part = whole;
}

Status Planner::choose(RequestPlan* request) const {
  const Costs costs = model_costs(g_, tiles_, request->new_tokens, request->context_tokens);
  request->expanded_seconds = costs.expanded;
  request->absorbed_seconds = costs.absorbed;
  RequestPlan absorbed = *request;
  absorbed.form = Form::kAbsorbed;
  split_keys(&absorbed);
  const bool can_expand = fits_expanded() && form_ != Form::kAbsorbed;
  const bool can_absorb = fits_absorbed(absorbed) && form_ != Form::kExpanded;
  if (!can_expand && !can_absorb) {
    const Form wanted =
        form_ == Form::kAbsorbed || !g_.has_expanded ? Form::kAbsorbed : Form::kExpanded;
    return invalid(
        "scratch_bytes",
        fmt::format("scratch_bytes is {}; the {} form needs at least {}", g_.scratch_bytes,
                    name(wanted),
                    wanted == Form::kAbsorbed ? least_absorbed(absorbed) : expanded_bytes(1)));
  }
  const bool both = can_expand && can_absorb;
  request->form = can_absorb && (!can_expand || costs.absorbed < costs.expanded) ? Form::kAbsorbed
                                                                                 : Form::kExpanded;
  request->reason = form_ != Form::kAuto ? FormReason::kForced
                    : both               ? FormReason::kCheaper
                                         : FormReason::kOnlyForm;
  split_keys(request);
  return {};
}

Status Planner::choose_all() {
  plan_.requests.resize(static_cast<std::size_t>(batch_.num_requests));
  state_->requests.resize(plan_.requests.size());
  for (std::int64_t r = 0; r < batch_.num_requests; ++r) {
    RequestPlan& request = plan_.requests[static_cast<std::size_t>(r)];
    request.new_tokens = batch_.cu_seqlens_q.length(r);
    request.context_tokens = batch_.context_lens.null() ? 0 : batch_.context_lens[r];
    if (request.new_tokens > 0) {
      if (Status s = choose(&request); !s) return s;
    }
    state_->requests[static_cast<std::size_t>(r)].first_token = batch_.cu_seqlens_q[r];
    state_->max_context =
        std::max(state_->max_context, request.new_tokens > 0 ? request.context_tokens : 0);
  }
  return {};
}

// Workers get what one unit needs at least; what is left goes to longer chunks and to the rounds.
Status Planner::share_budget(const attention::RunOptions& options) {
  std::int64_t least_worker = 0, wish = 0, least_shared_bytes = 0, shared_wish = 0;
  for (const RequestPlan& request : plan_.requests) {
    if (request.new_tokens == 0) continue;
    if (request.form == Form::kExpanded) {
      const std::int64_t blocks = ceil_div(request.new_tokens, tiles_.expanded.block_q);
      const std::int64_t heads = std::min(kMaxHeadGroup, g_.num_heads);
      least_worker = std::max(least_worker, expanded_bytes(1));
      wish = std::max(wish, std::min(kWorkerWish, expanded_bytes(blocks * heads)));
    } else {
      const std::int64_t rows = std::min(request.new_tokens * g_.num_heads, kFoldedChunk);
      const std::int64_t blocks = ceil_div(rows, tiles_.absorbed.block_q);
      least_worker = std::max(least_worker, least_absorbed_worker());
      wish = std::max(wish, absorbed_bytes(blocks));
      least_shared_bytes = std::max(least_shared_bytes, least_shared(request));
      shared_wish += request.new_tokens * absorbed_token_bytes(g_, parts_of(request));
    }
  }
  wish = std::max(wish, least_worker);
  const std::int64_t budget = g_.scratch_bytes / 64 * 64;
  const int offered =
      options.num_threads > 0 ? options.num_threads : state_->executor->concurrency();
  std::int64_t workers = std::max(1, offered);
  if (least_worker > 0) {
    workers = std::clamp<std::int64_t>((budget - least_shared_bytes) / least_worker, 1, workers);
  }
  if (shared_wish > 0) {
    shared_wish += kSharedSlack;
    shared_bytes_ = std::min(shared_wish, std::max(least_shared_bytes, budget / 2));
    shared_bytes_ = std::min(shared_bytes_, budget - workers * least_worker);
  }
  state_->workers = static_cast<int>(workers);
  state_->layout.worker_bytes = std::min(wish, (budget - shared_bytes_) / workers) / 64 * 64;
  return {};
}

// Sets the chunk and head group of one request; returns its units.
std::int64_t Planner::size_request(std::size_t r, const Caps& caps) {
  RequestPlan& request = plan_.requests[r];
  if (request.new_tokens == 0) return 0;
  const std::int64_t worker = state_->layout.worker_bytes;
  std::int64_t& unit_rows = state_->requests[r].unit_rows;
  if (request.form == Form::kAbsorbed) {
    const std::int64_t block_q = tiles_.absorbed.block_q;
    const std::int64_t room =
        (worker - absorbed_bytes(0)) / (absorbed_bytes(1) - absorbed_bytes(0));
    const std::int64_t rows = request.new_tokens * g_.num_heads;
    const std::int64_t wanted = ceil_div(std::min(kFoldedChunk, rows), block_q);
    unit_rows = std::min({room, wanted, caps.blocks}) * block_q;
    request.head_group = g_.num_heads;
    request.query_chunk = std::clamp<std::int64_t>(unit_rows / g_.num_heads, 1, request.new_tokens);
    return ceil_div(rows, unit_rows) * parts_of(request);
  }
  const std::int64_t block_q = tiles_.expanded.block_q;
  const std::int64_t room = (worker - expanded_bytes(0)) / (expanded_bytes(1) - expanded_bytes(0));
  const std::int64_t blocks = ceil_div(request.new_tokens, block_q);
  const std::int64_t chunks = ceil_div(blocks, std::min(room, caps.blocks));
  const std::int64_t chunk = ceil_div(blocks, chunks);
  const std::int64_t group =
      std::clamp<std::int64_t>(room / chunk, 1, std::min(caps.heads, g_.num_heads));
  const std::int64_t groups = ceil_div(g_.num_heads, group);
  unit_rows = chunk * block_q;
  request.query_chunk = std::min(unit_rows, request.new_tokens);
  request.head_group = ceil_div(g_.num_heads, groups);
  return ceil_div(blocks, chunk) * groups;
}

// Large units share most work; with fewer than a few a worker, the last ones leave workers idle.
// The last groups of heads become smaller than these, see units.cc.
void Planner::size_units() {
  Caps caps;
  while (true) {
    std::int64_t units = 0, largest = 1;
    for (std::size_t r = 0; r < plan_.requests.size(); ++r) {
      units += size_request(r, caps);
      const std::int64_t block_q = plan_.requests[r].form == Form::kAbsorbed
                                       ? tiles_.absorbed.block_q
                                       : tiles_.expanded.block_q;
      if (plan_.requests[r].new_tokens == 0) continue;
      largest = std::max(largest, state_->requests[r].unit_rows / block_q);
    }
    if (state_->workers == 1 || units >= 2 * state_->workers) return;
    if (caps.heads > 1) {
      caps.heads /= 2;
    } else if (largest > 1) {
      caps.blocks = largest / 2;
    } else {
      return;
    }
  }
}

Result<Plan> Planner::make(const attention::RunOptions& options) {
  state_ = std::make_shared<PlanState>();
  state_->geometry = g_;
  state_->block_table = batch_.block_table;
  if (state_->block_table.row_stride == 0) {
    state_->block_table.row_stride = state_->block_table.max_blocks;
  }
  state_->executor = options.executor != nullptr ? options.executor : &default_executor();
  state_->total_tokens = batch_.num_requests == 0 ? 0 : batch_.cu_seqlens_q[batch_.num_requests];
  if (Status s = choose_all(); !s) return s.error();
  if (Status s = share_budget(options); !s) return s.error();
  size_units();
  for (std::size_t r = 0; r < plan_.requests.size(); ++r) {
    const RequestPlan& request = plan_.requests[r];
    RequestShape& shape = state_->requests[r];
    shape.new_tokens = request.new_tokens;
    shape.context_tokens = request.context_tokens;
    shape.keys_per_part = request.keys_per_part;
  }
  lay_out_units({tiles_, plan_.requests, shared_bytes_}, state_.get());
  plan_.total_tokens = state_->total_tokens;
  plan_.scratch_bytes = state_->layout.total_bytes;
  plan_.workers = state_->workers;
  plan_.kernels = g_.kernels->name;
  plan_.state = std::move(state_);
  return std::move(plan_);
}

}  // namespace

Result<Plan> make_plan(const PlanInputs& inputs, const Batch& batch,
                       const attention::RunOptions& options) {
  return Planner(inputs, batch).make(options);
}

}  // namespace mla::prefill
