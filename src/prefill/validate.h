// Checks of everything a caller hands over, before anything is written. None allocates when all is
// well (views that interleave in one buffer excepted).
#pragma once

#include "mla/core.h"
#include "mla/prefill.h"
#include "prefill/schedule.h"

namespace mla::prefill {

Status check_config(const OperatorConfig& config);
Status check_weights(const OperatorConfig& config, const Weights& weights);
Status check_batch(const Batch& batch);
// What is read: q, kv_c, k_pe, the cache and its pages.
Status check_inputs(const PlanState& state, const RunArgs& args);
// Everything. Against the step that `state` describes, the block table's entries included.
Status check_run(const PlanState& state, const RunArgs& args);

}  // namespace mla::prefill
