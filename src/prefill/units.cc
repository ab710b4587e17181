// Units and rounds: how the chosen sizes become a list of work.
#include "prefill/units.h"

#include <algorithm>
#include <numeric>

namespace mla::prefill {
namespace {

constexpr std::int64_t kAppendTokens = 256;

class Layout {
 public:
  Layout(const UnitInputs& inputs, PlanState* state)
      : g_(state->geometry),
        tiles_(inputs.tiles),
        plans_(inputs.requests),
        capacity_(inputs.shared_bytes),
        state_(*state) {}

  void run() {
    for (std::int64_t t = 0; t < state_.total_tokens; t += kAppendTokens) {
      Unit unit;
      unit.begin = t;
      unit.end = std::min(t + kAppendTokens, state_.total_tokens);
      state_.append.push_back(unit);
    }
    heads_left_ = expanded_heads();
    for (std::int64_t r : heaviest_first()) {
      const RequestPlan& plan = plans_[static_cast<std::size_t>(r)];
      if (plan.new_tokens == 0) continue;
      if (plan.form == Form::kExpanded) {
        add_expanded(r, plan);
      } else {
        add_absorbed(r, plan);
      }
    }
    finish_rounds();
    set_offsets();
  }

 private:
  // By the modelled cost of one unit.
  std::vector<std::int64_t> heaviest_first() const {
    std::vector<std::int64_t> order(plans_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto unit_cost = [&](std::int64_t r) {
      const RequestPlan& plan = plans_[static_cast<std::size_t>(r)];
      const double share = static_cast<double>(plan.query_chunk * plan.head_group);
      const double whole =
          static_cast<double>(std::max<std::int64_t>(1, plan.new_tokens * g_.num_heads));
      return plan.form == Form::kExpanded
                 ? plan.expanded_seconds * share / whole
                 : plan.absorbed_seconds * share / whole / static_cast<double>(parts_of(plan));
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return unit_cost(a) > unit_cost(b); });
    return order;
  }

  Round& round(std::size_t index) {
    if (state_.rounds.size() <= index) state_.rounds.resize(index + 1);
    return state_.rounds[index];
  }

  std::int64_t unit_rows(std::int64_t r) const {
    return state_.requests[static_cast<std::size_t>(r)].unit_rows;
  }

  // Heads times chunks of everything expanded: what workers share out.
  std::int64_t expanded_heads() const {
    std::int64_t count = 0;
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      if (plans_[r].new_tokens == 0 || plans_[r].form != Form::kExpanded) continue;
      count += ceil_div(plans_[r].new_tokens, state_.requests[r].unit_rows) * g_.num_heads;
    }
    return count;
  }

  // The last chunk sees most keys. Groups of heads become smaller towards the end, so that workers
  // end together.
  void add_expanded(std::int64_t r, const RequestPlan& plan) {
    const std::int64_t chunk = unit_rows(r);
    const std::int64_t chunks = ceil_div(plan.new_tokens, chunk);
    std::vector<Unit>& units = round(0).attend;
    for (std::int64_t c = chunks; c-- > 0;) {
      Unit unit;
      unit.target = r;
      unit.begin = c * chunk;
      unit.end = std::min(unit.begin + chunk, plan.new_tokens);
      while (unit.head_end < g_.num_heads) {
        const std::int64_t share = ceil_div(heads_left_, 2 * state_.workers);
        const std::int64_t group =
            state_.workers > 1 ? std::min(plan.head_group, share) : plan.head_group;
        unit.head_begin = unit.head_end;
        unit.head_end = std::min(unit.head_begin + group, g_.num_heads);
        heads_left_ -= unit.head_end - unit.head_begin;
        units.push_back(unit);
      }
    }
  }

  void add_absorbed(std::int64_t r, const RequestPlan& plan) {
    const std::int64_t quantum = token_quantum(g_, tiles_);
    const std::int64_t parts = parts_of(plan);
    const std::int64_t per_token = absorbed_token_bytes(g_, parts);
    std::int64_t begin = 0;
    while (begin < plan.new_tokens) {
      const std::int64_t room = (capacity_ - kSharedSlack - used_) / per_token;
      const std::int64_t left = plan.new_tokens - begin;
      const std::int64_t tokens = room >= left ? left : room / quantum * quantum;
      if (tokens > 0) {
        add_job(r, plan, begin, begin + tokens);
        used_ += tokens * per_token;
        begin += tokens;
      }
      if (begin < plan.new_tokens) {
        ++current_;
        used_ = places_ = partial_rows_ = 0;
      }
    }
  }

  void add_job(std::int64_t r, const RequestPlan& plan, std::int64_t begin, std::int64_t end) {
    Job job;
    job.request = r;
    job.begin = begin;
    job.end = end;
    job.parts = parts_of(plan);
    job.first = places_;
    job.partial_row = partial_rows_;
    const std::int64_t rows = (end - begin) * g_.num_heads;
    places_ += end - begin;
    partial_rows_ += rows * job.parts;
    max_places_ = std::max(max_places_, places_);
    max_partial_rows_ = std::max(max_partial_rows_, partial_rows_);
    Round& target = round(current_);
    const std::int64_t chunk = unit_rows(r);
    for (std::int64_t row = 0; row < rows; row += chunk) {
      for (std::int64_t part = 0; part < job.parts; ++part) {
        Unit unit;
        unit.target = static_cast<std::int64_t>(target.jobs.size());
        unit.begin = row;
        unit.end = std::min(row + chunk, rows);
        unit.part = part;
        target.attend.push_back(unit);
      }
    }
    target.jobs.push_back(job);
  }

  // Products: every head, over all places of the round in pieces that give each worker several.
  void finish_rounds() {
    for (Round& target : state_.rounds) {
      const std::int64_t places =
          target.jobs.empty()
              ? 0
              : target.jobs.back().first + target.jobs.back().end - target.jobs.back().begin;
      const std::int64_t wanted = ceil_div(4 * state_.workers, g_.num_heads);
      const std::int64_t piece =
          round_up(std::max<std::int64_t>(1, ceil_div(places, wanted)), kProductRows);
      for (std::int64_t h = 0; h < g_.num_heads; ++h) {
        for (std::int64_t p = 0; p < places; p += piece) {
          Unit unit;
          unit.target = h;
          unit.begin = p;
          unit.end = std::min(p + piece, places);
          target.queries.push_back(unit);
        }
      }
      target.outputs = target.queries;
    }
  }

  void set_offsets() {
    ScratchLayout& layout = state_.layout;
    const std::int64_t rows = max_places_ * g_.num_heads;
    layout.queries_offset = layout.worker_bytes * state_.workers;
    layout.partial_offset =
        layout.queries_offset + align64(rows * g_.row_width() * size_of(g_.dtype));
    layout.lse_offset = layout.partial_offset +
                        align64(max_partial_rows_ * g_.kv_lora_rank * size_of(DType::kFloat32));
    layout.total_bytes = layout.lse_offset + align64(max_partial_rows_ * size_of(DType::kFloat32));
  }

  const Geometry& g_;
  const Tiles& tiles_;
  const std::vector<RequestPlan>& plans_;
  const std::int64_t capacity_;
  PlanState& state_;
  std::int64_t heads_left_ = 0;  // of expanded_heads(), not in a unit yet
  std::size_t current_ = 0;
  std::int64_t used_ = 0, places_ = 0, partial_rows_ = 0;
  std::int64_t max_places_ = 0, max_partial_rows_ = 0;
};

}  // namespace

void lay_out_units(const UnitInputs& inputs, PlanState* state) { Layout(inputs, state).run(); }

}  // namespace mla::prefill
