// The suite itself: it passes a right implementation and fails each wrong one where it should.
#include <gtest/gtest.h>

#include <set>

#include "conformance/conformance.h"
#include "conformance/naive.h"

namespace mla::conformance {
namespace {

Subject subject_of(const NaiveAttention& implementation, std::vector<DType> dtypes = {}) {
  return {"naive", &implementation, std::move(dtypes), {}};
}

class RightImplementation : public testing::TestWithParam<Property> {};

TEST_P(RightImplementation, Passes) {
  const NaiveAttention naive(Fault::kNone);
  const Verdict verdict = check(GetParam().name, subject_of(naive));
  EXPECT_EQ(verdict.outcome, Outcome::kPassed) << verdict.detail;
  EXPECT_LE(verdict.out_error, 1.0);
  EXPECT_FALSE(verdict.detail.empty());
}

INSTANTIATE_TEST_SUITE_P(Suite, RightImplementation, testing::ValuesIn(properties()),
                         [](const auto& info) { return std::string(info.param.name); });

struct Mutation {
  const char* name;
  Fault fault;
  std::vector<const char*> broken;  // properties that must fail
  const char* kept = nullptr;       // one that must not
  DType dtype = DType::kBFloat16;
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

class WrongImplementation : public testing::TestWithParam<Mutation> {};

TEST_P(WrongImplementation, FailsWhereItIsWrong) {
  const Mutation& mutation = GetParam();
  for (const char* property : mutation.broken) {
    const NaiveAttention naive(mutation.fault);
    const Verdict verdict = check(property, subject_of(naive, {mutation.dtype}));
    EXPECT_EQ(verdict.outcome, Outcome::kFailed) << property << ": " << verdict.detail;
    if (verdict.property != "bad_arguments") {
      EXPECT_NE(verdict.detail.find("seed="), std::string::npos) << verdict.detail;
    }
  }
  if (mutation.kept != nullptr) {
    const NaiveAttention naive(mutation.fault);
    const Verdict verdict = check(mutation.kept, subject_of(naive, {mutation.dtype}));
    EXPECT_EQ(verdict.outcome, Outcome::kPassed) << mutation.kept << ": " << verdict.detail;
  }
}

const Mutation kMutations[] = {
    {"CausalOneMore", Fault::kCausalOneMore, {"ragged", "causal_alignment"}, "all_keys"},
    {"CausalOneLess", Fault::kCausalOneLess, {"ragged", "causal_alignment"}, "all_keys"},
    {"TopLeft", Fault::kTopLeft, {"causal_alignment", "empty"}, "causal_offsets"},
    {"OffsetOverflow", Fault::kOffsetOverflow, {"causal_offsets"}, "causal_alignment"},
    {"DropsLastKey", Fault::kDropsLastKey, {"all_keys", "block_edges"}, "bad_arguments"},
    {"MasksByZero", Fault::kMasksByZero, {"masked_nan"}, "ragged"},
    {"NanInMax", Fault::kNanInMax, {"masked_nan"}, "ragged"},
    {"SharesScores", Fault::kSharesScores, {"query_nan"}, "masked_nan"},
    {"LseBase2", Fault::kLseBase2, {"ragged", "merge_chunks"}, nullptr},
    {"LseEmptyInf", Fault::kLseEmptyInf, {"empty", "causal_alignment"}, "dense_batch"},
    {"IgnoresLseStride", Fault::kIgnoresLseStride, {"lse"}, "ragged"},
    {"LeavesEmptyRows", Fault::kLeavesEmptyRows, {"empty", "causal_alignment"}, "all_keys"},
    {"WritesPastRow", Fault::kWritesPastRow, {"layouts", "outside_memory"}, nullptr},
    {"ReadsPastRow", Fault::kReadsPastRow, {"outside_memory"}, "ragged"},
    {"ContiguousV", Fault::kContiguousV, {"strided_v", "layouts", "dense_batch"}, "ragged"},
    {"IgnoresOffsets", Fault::kIgnoresOffsets, {"dense_batch", "layouts"}, "strided_v"},
    {"HeadStrideNotZero", Fault::kHeadStrideNotZero, {"shared_heads"}, "layouts"},
    {"ThreadDependent", Fault::kThreadDependent, {"threads"}, "ragged", DType::kFloat32},
    {"BatchDependent", Fault::kBatchDependent, {"batch_invariance"}, "threads", DType::kFloat32},
    {"Remembers", Fault::kRemembers, {"repeat"}, "ragged", DType::kFloat32},
    {"Bf16Accumulation", Fault::kBf16Accumulation, {"rounding_model"}, "bad_arguments"},
    {"Bf16PForFloat32", Fault::kBf16P, {"ragged", "random"}, "bad_arguments", DType::kFloat32},
    {"Bf16P", Fault::kBf16P, {}, "rounding_model"},
    {"NoMax", Fault::kNoMax, {"large_scores"}, "ragged"},
    {"FloatSums", Fault::kFloatSums, {"wide_heads"}, "ragged", DType::kFloat32},
    {"FusedMax", Fault::kFusedMax, {"huge_scales"}, "ragged"},
    {"AbsScale", Fault::kAbsScale, {"scales"}, "ragged"},
    {"RoundsTwice", Fault::kRoundsTwice, {"rounding_model"}, "ragged"},
    {"RefusesOddDims", Fault::kRefusesOddDims, {"dims", "random"}, "ragged"},
};

INSTANTIATE_TEST_SUITE_P(Suite, WrongImplementation, testing::ValuesIn(kMutations),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Suite, PropertiesHaveNamesOfTheirOwnAndMeanings) {
  std::set<std::string_view> names;
  for (const Property& property : properties()) {
    EXPECT_TRUE(names.insert(property.name).second) << property.name;
    EXPECT_FALSE(property.meaning.empty());
  }
}

TEST(Suite, AnUnknownPropertyIsSkipped) {
  const NaiveAttention naive(Fault::kNone);
  EXPECT_EQ(check("no_such_property", subject_of(naive)).outcome, Outcome::kSkipped);
  EXPECT_EQ(check("ragged", {"nothing", nullptr, {}, {}}).outcome, Outcome::kSkipped);
}

TEST(Suite, ASubjectIsAskedOnlyForWhatItClaims) {
  const NaiveAttention naive(Fault::kRefusesOddDims);
  Subject subject = subject_of(naive, {DType::kFloat16});
  subject.dims = {{128, 64, 128}};
  for (const char* property : {"dims", "ragged", "shared_heads", "outside_memory"}) {
    EXPECT_EQ(check(property, subject).outcome, Outcome::kPassed) << property;
  }
}

TEST(Suite, BatchesBeyondTheLargestAreNotAskedFor) {
  attention::Traits traits;
  traits.max_tokens = 100;
  const NaiveAttention naive(Fault::kNone, traits);
  EXPECT_EQ(check("long_context", subject_of(naive)).outcome, Outcome::kSkipped);
  EXPECT_EQ(check("empty", subject_of(naive)).outcome, Outcome::kPassed);
}

TEST(Suite, CheckAllHandsOutEveryVerdict) {
  const NaiveAttention naive(Fault::kLseBase2);
  Subject subject = subject_of(naive, {DType::kFloat32});
  subject.dims = {{6, 2, 4}};
  std::vector<std::string> seen;
  Options options;
  options.random_batches = 3;
  EXPECT_FALSE(check_all(subject, options, [&](const Verdict& v) { seen.push_back(v.property); }));
  ASSERT_EQ(seen.size(), properties().size());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], properties()[i].name);
}

}  // namespace
}  // namespace mla::conformance
