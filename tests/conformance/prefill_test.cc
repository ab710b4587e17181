// The prefill operator's suite on every row that this machine can run, and operators with a fault
// that it must find.
#include "conformance/prefill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mla::conformance {
namespace {

std::vector<Candidate> runnable() {
  std::vector<Candidate> rows;
  for (const Candidate& candidate : candidates(default_registry(), this_cpu_platform())) {
    if (candidate.cannot_run.empty()) rows.push_back(candidate);
  }
  return rows;
}

const Candidate& row_named(const std::vector<Candidate>& rows, const std::string& name) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const Candidate& row) { return row.subject.name == name; });
}

TEST(PrefillSuite, EveryRowConforms) {
  for (const Candidate& row : runnable()) {
    for (const Property& property : prefill_properties()) {
      const Verdict verdict = check_prefill(property.name, row.subject);
      EXPECT_EQ(verdict.outcome, Outcome::kPassed)
          << row.subject.name << " " << property.name << ": " << verdict.detail;
    }
  }
}

// Where a property sees the fault of a mutant.
void expect_found(const std::string& property, const PrefillStep& mutant) {
  const std::vector<Candidate> rows = runnable();
  Subject subject = row_named(rows, "CPU:portable").subject;
  subject.dtypes = {DType::kFloat32};
  EXPECT_EQ(check_prefill(property, subject, mutant).outcome, Outcome::kFailed) << property;
}

PrefillStep sound() {
  static const std::vector<Candidate> rows = runnable();
  return prefill_step(*row_named(rows, "CPU:portable").subject.implementation);
}

TEST(PrefillSuite, FindsAStepThatComputesNothing) {
  const PrefillStep idle = [](const PrefillCall&) -> Result<std::int64_t> { return {0}; };
  for (const char* property : {"prefill_forms", "prefill_splits", "prefill_bad_arguments"}) {
    expect_found(property, idle);
  }
}

TEST(PrefillSuite, FindsAForgottenContext) {
  expect_found("prefill_block_edges", [](const PrefillCall& call) {
    PrefillCall forgetful = call;
    forgetful.batch.context_lens = {};
    return sound()(forgetful);
  });
}

TEST(PrefillSuite, FindsAnotherScale) {
  expect_found("prefill_forms", [](const PrefillCall& call) {
    PrefillCall scaled = call;
    scaled.config.scale = 0.05f;
    return sound()(scaled);
  });
}

TEST(PrefillSuite, FindsABudgetThatIsNotKept) {
  expect_found("prefill_budgets", [](const PrefillCall& call) -> Result<std::int64_t> {
    const Result<std::int64_t> bytes = sound()(call);
    if (!bytes) return bytes;
    return call.config.scratch_bytes + 1;
  });
}

}  // namespace
}  // namespace mla::conformance
