// What the properties of the prefill operator share: a step tried in a World, compared with
// prefill::reference(), its worst errors kept in a verdict. Private to the suite.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "number.h"
#include "prefill.h"
#include "prefill_world.h"

namespace mla::conformance {

using prefill::Form;

inline constexpr Form kForms[] = {Form::kExpanded, Form::kAbsorbed, Form::kAuto};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The row contract's bound; rms(v) is 1 in a World.
inline double out_allowed(DType dtype, double wanted) {
  if (dtype == DType::kFloat32) return 2e-5 * (1 + std::fabs(wanted));
  return ulp(dtype, wanted) + 1e-2;
}

// Keys are rounded once more when they are projected (docs/cli.md, run).
inline double lse_allowed(DType dtype, double wanted) {
  return (dtype == DType::kFloat32 ? 1e-5 : 4e-3) * (1 + std::fabs(wanted));
}

class StepTrial {
 public:
  StepTrial(const Subject& subject, const PrefillStep& step, const Options& options,
            Verdict* verdict)
      : subject_(subject), step_(step), seed_(options.seed), verdict_(*verdict) {}

  bool failed() const { return verdict_.outcome == Outcome::kFailed; }
  void fault(const WorldSpec& spec, const std::string& what) {
    if (failed()) return;
    verdict_.outcome = Outcome::kFailed;
    verdict_.detail = what + " [" + to_string(spec) + "]";
  }

  // Calls visit(spec) for each dtype and form until one fails.
  template <class Visit>
  void for_each_form(const std::vector<StepLengths>& requests, Visit&& visit) {
    std::vector<DType> dtypes = subject_.dtypes;
    if (dtypes.empty()) dtypes = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
    for (DType dtype : dtypes) {
      for (Form form : kForms) {
        if (failed()) return;
        WorldSpec spec;
        spec.dtype = dtype;
        spec.form = form;
        spec.requests = requests;
        spec.seed = seed_;
        if (!subject_.dims.empty()) spec.dims = subject_.dims.front();
        visit(spec);
      }
    }
  }

  Result<std::int64_t> attempt(const PrefillCall& call) { return step_(call); }
  // A step that must succeed within its budget.
  bool run(const WorldSpec& spec, const PrefillCall& call) {
    if (failed()) return false;
    const Result<std::int64_t> scratch = step_(call);
    if (!scratch) {
      fault(spec, "refused: " + scratch.error().message);
    } else if (*scratch > call.config.scratch_bytes) {
      fault(spec, "scratch of " + std::to_string(*scratch) + " bytes, budget " +
                      std::to_string(call.config.scratch_bytes));
    }
    verdict_.batches += failed() ? 0 : 1;
    return !failed();
  }

  // Every element of out and lse against the reference of the whole step.
  void compare(World& world) {
    if (failed()) return;
    const std::int64_t tokens = world.total_tokens();
    std::vector<std::int64_t> all(static_cast<std::size_t>(tokens));
    std::iota(all.begin(), all.end(), 0);
    std::vector<double> out(static_cast<std::size_t>(world.out.count()));
    std::vector<double> lse(static_cast<std::size_t>(world.lse.count()));
    const PrefillCall call = world.call();
    const Status status = prefill::reference(call.config, call.weights, call.batch, call.args,
                                             {all.data(), tokens, out.data(), lse.data()});
    if (!status.ok()) return fault(world.spec(), "reference refused: " + status.error().message);
    measure(world, world.out, out, out_allowed);
    measure(world, world.lse, lse, lse_allowed);
  }

  void check(const WorldSpec& spec) {
    World world(spec);
    if (run(spec, world.call())) compare(world);
  }

 private:
  void measure(const World& world, const Elements& got, const std::vector<double>& wanted,
               double (*allowed)(DType, double)) {
    const bool of_out = &got == &world.out;
    const DType dtype = world.spec().dtype;
    double& worst = of_out ? verdict_.out_error : verdict_.lse_error;
    DType& where = of_out ? verdict_.out_error_dtype : verdict_.lse_error_dtype;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double value = got.get(static_cast<std::int64_t>(i));
      const double error = std::fabs(value - wanted[i]) / allowed(dtype, wanted[i]);
      const double share = std::isnan(error) ? kInfinity : error;
      if (share > worst) {
        worst = share;
        where = dtype;
      }
      if (share <= 1) continue;
      std::ostringstream text;
      text << (of_out ? "out" : "lse") << " element " << i << " is " << value << ", wanted "
           << wanted[i];
      return fault(world.spec(), text.str());
    }
  }

  const Subject& subject_;
  const PrefillStep& step_;
  std::uint64_t seed_;
  Verdict& verdict_;
};

}  // namespace mla::conformance
