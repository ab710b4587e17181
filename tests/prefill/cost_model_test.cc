// What the cost model must say whatever its rates: a decode step absorbs, a long prompt expands,
// and the plan takes the form that it calls cheaper.
#include <gtest/gtest.h>

#include "prefill/rows.h"
#include "prefill/world.h"

namespace mla::prefill {
namespace {

RequestPlan plan_of(const TestRow& row, std::int32_t new_tokens, std::int64_t context) {
  OperatorConfig config;
  config.num_heads = 16;
  config.dims = {128, 64, 128};
  config.kv_lora_rank = 512;
  static const std::vector<char> zeros(static_cast<std::size_t>(16 * 256 * 512 * 2));
  Weights weights;
  weights.kv_b_proj = zeros.data();
  const Operator op = *Operator::create(config, weights, row.implementation);
  const std::int32_t cu[2] = {0, new_tokens};
  const std::int32_t block = 0;
  Batch batch;
  batch.num_requests = 1;
  batch.cu_seqlens_q = cu;
  batch.context_lens = &context;
  batch.block_table = {&block, 1, 0};  // read by run() only
  return op.plan(batch)->requests[0];
}

TEST(CostModel, DecodeAbsorbsAndLongPromptsExpand) {
  for (const TestRow& row : test_rows()) {
    EXPECT_EQ(plan_of(row, 1, 8192).form, Form::kAbsorbed) << row.name;
    EXPECT_EQ(plan_of(row, 1, 1024).form, Form::kAbsorbed) << row.name;
    EXPECT_EQ(plan_of(row, 16, 32768).form, Form::kAbsorbed) << row.name;
    EXPECT_EQ(plan_of(row, 1024, 0).form, Form::kExpanded) << row.name;
    EXPECT_EQ(plan_of(row, 1024, 32768).form, Form::kExpanded) << row.name;
  }
}

// A projection computes whole groups of keys: one key costs what a group does.
TEST(CostModel, AFewKeysAreProjectedAtThePriceOfAGroup) {
  for (const TestRow& row : test_rows()) {
    const double one = plan_of(row, 1, 0).expanded_seconds;
    EXPECT_LT(plan_of(row, 16, 0).expanded_seconds, 1.5 * one) << row.name;
    EXPECT_GT(plan_of(row, 64, 0).expanded_seconds, 3.0 * one) << row.name;
  }
}

TEST(CostModel, ThePlanTakesTheCheaper) {
  for (const TestRow& row : test_rows()) {
    for (std::int32_t new_tokens : {1, 7, 64, 150, 700}) {
      const RequestPlan plan = plan_of(row, new_tokens, 3000);
      EXPECT_EQ(plan.reason, FormReason::kCheaper);
      EXPECT_EQ(plan.form == Form::kAbsorbed, plan.absorbed_seconds < plan.expanded_seconds);
    }
  }
}

}  // namespace
}  // namespace mla::prefill
