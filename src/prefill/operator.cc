// The operator: checks, packs, plans, and runs a step as append, attend, project back.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "attention/cpu/kernels.h"
#include "mla/prefill.h"
#include "prefill/limits.h"
#include "prefill/plan.h"
#include "prefill/run.h"
#include "prefill/validate.h"
#include "prefill/weights.h"
#include "prefill/workspace.h"

namespace mla::prefill {

struct Operator::Impl {
  OperatorConfig config;
  std::shared_ptr<const attention::Implementation> implementation;
  Geometry geometry;
  Tiles tiles;
  PackedWeights weights;
  std::shared_ptr<Workspace> workspace = std::make_shared<Workspace>();
};

namespace {

// Everything of a configuration that has a default.
OperatorConfig complete(OperatorConfig config) {
  if (std::isnan(config.scale)) {
    config.scale = 1.0f / std::sqrt(static_cast<float>(config.dims.qk_head_dim()));
  }
  config.out_dtype = config.out_dtype.value_or(config.dtype);
  config.cache_dtype = config.cache_dtype.value_or(config.dtype);
  return config;
}

Result<Geometry> make_geometry(const OperatorConfig& config, const cpu::Kernels* kernels) {
  Geometry g;
  g.kernels = kernels;
  g.num_heads = config.num_heads;
  g.dims = config.dims;
  g.kv_lora_rank = config.kv_lora_rank;
  g.dtype = config.dtype;
  g.out_dtype = *config.out_dtype;
  g.cache_dtype = *config.cache_dtype;
  g.scale = config.scale;
  g.scratch_bytes = config.scratch_bytes;
  if (kernels != nullptr) {
    // A row's table may leave a dtype to a simpler one.
    g.kernels = kernels = &cpu::kernels_for(*kernels, g.expanded_shape());
    g.products = &cpu::product_kernels_for(*kernels);
    g.has_expanded = config.form != Form::kAbsorbed && kernels->project != nullptr &&
                     kernels->supports(g.expanded_shape());
    g.has_absorbed = config.form != Form::kExpanded && g.row_width() <= kMaxDim &&
                     kernels->supports(g.absorbed_shape());
  }
  if (g.has_expanded || g.has_absorbed) return g;
  return Error{ErrorCode::kUnsupported, "backend",
               fmt::format("the kernels of {} have no {} form for {} {}, kv_lora_rank={}",
                           kernels != nullptr ? kernels->name : "this backend",
                           config.form == Form::kAuto ? "prefill" : name(config.form),
                           mla::name(config.dtype), to_string(config.dims), config.kv_lora_rank)};
}

// One phase: the workers take units in order until none is left.
template <class Work>
void run_phase(const RunContext& run, const std::vector<Unit>& units, Work work) {
  const auto count = static_cast<std::int64_t>(units.size());
  const auto workers = static_cast<int>(std::min<std::int64_t>(run.state.workers, count));
  if (workers == 0) return;
  std::atomic<std::int64_t> next{0};
  run.state.executor->for_each_worker(workers, [&](int worker) {
    const cpu::Kernels& kernels = *run.geometry.kernels;
    cpu::ThreadState saved;
    if (kernels.enter_thread != nullptr) kernels.enter_thread(&saved);
    std::byte* memory = run.worker_memory(worker);
    for (std::int64_t i = next++; i < count; i = next++) {
      work(units[static_cast<std::size_t>(i)], memory);
    }
    if (kernels.leave_thread != nullptr) kernels.leave_thread(&saved);
  });
}

RunArgs with_strides(const RunContext& run, RunArgs args) {
  const Geometry& g = run.geometry;
  const auto fill = [](std::int64_t* stride, std::int64_t contiguous) {
    if (*stride == 0) *stride = contiguous;
  };
  fill(&args.kv_c_stride, g.kv_lora_rank);
  fill(&args.k_pe_stride, g.dims.qk_rope_head_dim);
  fill(&args.cache.block_stride, args.cache.block_size * g.row_width());
  fill(&args.lse_head_stride, run.state.total_tokens);
  return args;
}

void run_rounds(const RunContext& run) {
  run_phase(run, run.state.append, [&](const Unit& unit, std::byte*) { append_tokens(run, unit); });
  for (const Round& round : run.state.rounds) {
    run_phase(run, round.queries,
              [&](const Unit& unit, std::byte* memory) { make_queries(run, round, unit, memory); });
    run_phase(run, round.attend, [&](const Unit& unit, std::byte* memory) {
      if (unit.part < 0) {
        attend_expanded(run, unit, memory);
      } else {
        attend_absorbed(run, round, unit, memory);
      }
    });
    run_phase(run, round.outputs,
              [&](const Unit& unit, std::byte* memory) { make_outputs(run, round, unit, memory); });
  }
}

}  // namespace

Operator::Operator(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<Operator> Operator::create(const OperatorConfig& config, const Weights& weights,
                                  std::shared_ptr<const attention::Implementation> implementation) {
  if (Status s = check_config(config); !s) return s.error();
  if (Status s = check_weights(config, weights); !s) return s.error();
  if (implementation == nullptr) return invalid("implementation", "implementation is null");
  auto impl = std::make_shared<Impl>();
  impl->config = complete(config);
  const Result<Geometry> geometry = make_geometry(impl->config, implementation->kernels());
  if (!geometry) return geometry.error();
  impl->implementation = std::move(implementation);
  impl->geometry = *geometry;
  impl->tiles = tiles_of(*geometry);
  Result<PackedWeights> packed = PackedWeights::pack(*geometry, view_of(config, weights));
  if (!packed) return packed.error();
  impl->weights = std::move(*packed);
  return Operator(std::move(impl));
}

Result<Plan> Operator::plan(const Batch& batch, const attention::RunOptions& options) const {
  if (Status s = check_batch(batch); !s) return s.error();
  if (options.num_threads < 0) {
    return invalid("num_threads",
                   fmt::format("num_threads is {}; wanted at least 0", options.num_threads));
  }
  Result<Plan> plan =
      make_plan({&impl_->geometry, &impl_->tiles, impl_->config.form}, batch, options);
  if (!plan) return plan;
  if (!impl_->workspace->reserve(plan->scratch_bytes)) {
    return Error{ErrorCode::kOutOfMemory, "scratch_bytes",
                 fmt::format("no memory for {} bytes of scratch", plan->scratch_bytes)};
  }
  plan->state->workspace = impl_->workspace;
  return plan;
}

Status Operator::run(const Plan& plan, const RunArgs& args) const {
  if (plan.state == nullptr || plan.state->workspace == nullptr) {
    return invalid("plan", "plan was not made by plan()");
  }
  const PlanState& state = *plan.state;
  if (!(state.geometry == impl_->geometry)) {
    return invalid("plan", "plan was made by an operator of another configuration");
  }
  if (Status s = check_run(state, args); !s) return s;
  if (state.total_tokens == 0) return {};
  const std::unique_lock turn = state.workspace->take_turn();
  if (state.workspace->bytes() < state.layout.total_bytes) {
    return Error{ErrorCode::kOutOfMemory, "scratch_bytes",
                 "the plan's scratch memory was lost when a later plan() found no memory"};
  }
  RunContext run{state, state.geometry, impl_->tiles, impl_->weights, {}, state.workspace->data()};
  run.args = with_strides(run, args);
  run_rounds(run);
  return {};
}

const OperatorConfig& Operator::config() const { return impl_->config; }

std::int64_t Operator::weight_bytes() const { return impl_->weights.bytes(); }

}  // namespace mla::prefill
