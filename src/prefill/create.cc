// An operator on the row that the selection chooses for this machine.
#include <fmt/format.h>

#include "mla/prefill.h"
#include "mla/selector.h"
#include "prefill/validate.h"

namespace mla::prefill {

Result<Operator> Operator::create(const OperatorConfig& config, const Weights& weights) {
  if (Status s = check_config(config); !s) return s.error();
  const Problem problem{config.dtype, config.dims, config.num_heads, config.kv_lora_rank};
  Policy policy;
  policy.backend = config.backend;
  const std::shared_ptr<const Selection> selection = select(problem, this_cpu_platform(), policy);
  report(*selection);
  if (!selection->ok()) return *selection->error;
  const Result<Row> row = selected_row(*selection, default_registry());
  if (!row) return row.error();
  if (row->implementation == nullptr) {
    return Error{ErrorCode::kUnsupported, "backend",
                 fmt::format("{} does not run in this process", row->full_name())};
  }
  return create(config, weights, row->implementation);
}

}  // namespace mla::prefill
