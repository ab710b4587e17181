// From a step's lengths to its work list, in the budget.
#pragma once

#include "mla/prefill.h"
#include "prefill/memory.h"
#include "prefill/schedule.h"

namespace mla::prefill {

// What plan() starts from.
struct PlanInputs {
  const Geometry* geometry = nullptr;
  const Tiles* tiles = nullptr;
  Form form = Form::kAuto;
};

// The plan without its memory: state->workspace is not set yet. The batch has been checked.
Result<Plan> make_plan(const PlanInputs& inputs, const Batch& batch,
                       const attention::RunOptions& options);

}  // namespace mla::prefill
