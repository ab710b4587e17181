// The prefill operator of mla/prefill.h, proved or refuted for a row whose kernels it is built
// from: each property against prefill::reference(). Uses the public headers only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance.h"
#include "mla/prefill.h"

namespace mla::conformance {

// One step as a caller asks for it.
struct PrefillCall {
  prefill::OperatorConfig config;
  prefill::Weights weights;
  prefill::Batch batch;
  prefill::RunArgs args;
  attention::RunOptions options;
};
// Makes the operator, plans, runs; the plan's scratch bytes.
using PrefillStep = std::function<Result<std::int64_t>(const PrefillCall&)>;

// The library's operator on an implementation, which must outlive the function.
PrefillStep prefill_step(const attention::Implementation& implementation);

// Why there is no prefill operator on the subject; empty where there is one.
std::string prefill_cannot_run(const Subject& subject);

// In the order in which they are checked.
const std::vector<Property>& prefill_properties();

// One property, by name. kSkipped where prefill_cannot_run() has a reason, and for a name that is
// not in the list. Verdict::batches counts steps.
Verdict check_prefill(std::string_view property, const Subject& subject,
                      const Options& options = {});
// The same of another operator that claims to be one; the subject says dtypes and dims.
Verdict check_prefill(std::string_view property, const Subject& subject, const PrefillStep& step,
                      const Options& options = {});

// All of them; `sink` gets each verdict as it falls. True when none failed.
bool check_all_prefill(const Subject& subject, const Options& options, const Sink& sink);

}  // namespace mla::conformance
