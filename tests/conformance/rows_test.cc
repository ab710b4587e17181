// The contract for every row of the registry that this machine can run; the others are named with
// the reason why they could not be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "conformance/conformance.h"

namespace mla::conformance {
namespace {

struct Case {
  Candidate candidate;
  std::string property;  // empty: the row cannot be run here
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Candidate& candidate : candidates(default_registry(), this_cpu_platform())) {
    if (!candidate.cannot_run.empty()) {
      all.push_back({candidate, ""});
      continue;
    }
    for (const Property& property : properties()) {
      all.push_back({candidate, std::string(property.name)});
    }
  }
  return all;
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  const std::string& property = info.param.property;
  std::string text =
      info.param.candidate.subject.name + "_" + (property.empty() ? "not_run" : property);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.candidate.subject.name << " " << c.property;
}

class EveryRow : public testing::TestWithParam<Case> {};

TEST_P(EveryRow, Conforms) {
  const auto& [candidate, property] = GetParam();
  if (property.empty()) GTEST_SKIP() << candidate.subject.name << ": " << candidate.cannot_run;
  const Verdict verdict = check(property, candidate.subject);
  if (verdict.outcome == Outcome::kSkipped) GTEST_SKIP() << verdict.detail;
  EXPECT_EQ(verdict.outcome, Outcome::kPassed) << verdict.detail;
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryRow, testing::ValuesIn(cases()), test_name);

TEST(Rows, TheRegistryHasRowsThatRunHere) {
  const auto all = candidates(default_registry(), this_cpu_platform());
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Candidate& candidate) {
    return candidate.cannot_run.empty() && candidate.subject.name == "CPU:portable";
  }));
}

}  // namespace
}  // namespace mla::conformance
