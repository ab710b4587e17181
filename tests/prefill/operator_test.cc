// The operator against the reference, and the laws: any form, budget, split, paging and number of
// threads give the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "attention/cpu/isa/isa.h"
#include "mla/prefill.h"
#include "prefill/rows.h"
#include "prefill/world.h"

namespace mla::prefill {
namespace {

class OperatorTest : public testing::TestWithParam<TestRow> {
 protected:
  Result<Operator> make(const OperatorConfig& config, const Weights& weights) const {
    return Operator::create(config, weights, GetParam().implementation);
  }

  // Plans and runs one step.
  Status run(const OperatorConfig& config, World& world,
             const attention::RunOptions& options = {}) const {
    Result<Operator> op = make(config, world.weights());
    if (!op) return op.error();
    const Result<Plan> plan = op->plan(world.batch(), options);
    if (!plan) return plan.error();
    EXPECT_LE(plan->scratch_bytes, config.scratch_bytes);
    return op->run(*plan, world.args());
  }

  void expect_reference(const OperatorConfig& config, World& world) const {
    const std::int64_t tokens = world.total_tokens(), heads = config.num_heads;
    std::vector<std::int64_t> all(static_cast<std::size_t>(tokens));
    std::iota(all.begin(), all.end(), 0);
    std::vector<double> out(static_cast<std::size_t>(world.out.count()));
    std::vector<double> lse(static_cast<std::size_t>(tokens * heads));
    const Status s = reference(config, world.weights(), world.batch(), world.args(),
                               {all.data(), tokens, out.data(), lse.data()});
    ASSERT_TRUE(s.ok()) << s.error().message;
    const DType dtype = config.out_dtype.value_or(config.dtype);
    for (std::int64_t i = 0; i < world.out.count(); ++i) {
      const double want = out[static_cast<std::size_t>(i)];
      const DType precision = dtype == DType::kFloat32 ? config.dtype : dtype;
      ASSERT_NEAR(world.out.get(i), want, allowed_error(precision, want)) << "element " << i;
    }
    const double lse_error = config.dtype == DType::kFloat32 ? 1e-5 : 4e-3;
    for (std::size_t i = 0; i < lse.size(); ++i) {
      ASSERT_NEAR(world.lse[i], lse[i], lse_error * (1 + std::abs(lse[i]))) << "lse " << i;
    }
  }
};

// The least budget that plan() takes, as its error says it.
std::int64_t least_from(const Error& error) {
  const std::string wanted = "needs at least ";
  return std::stoll(error.message.substr(error.message.find(wanted) + wanted.size()));
}

constexpr Form kForms[] = {Form::kExpanded, Form::kAbsorbed, Form::kAuto};

TEST_P(OperatorTest, EqualsTheReferenceInBothForms) {
  const std::vector<Lengths2> mixed = {{5, 37}, {0, 20}, {1, 300}, {70, 0}, {0, 0}, {33, 16}};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (std::int64_t block_size : {1, 3, 16, 64}) {
      WorldConfig config;
      config.dtype = config.cache_dtype = dtype;
      config.block_size = block_size;
      for (Form form : kForms) {
        SCOPED_TRACE(std::string(mla::name(dtype)) + " " + std::string(name(form)) + " " +
                     std::to_string(block_size));
        World world(config, mixed);
        OperatorConfig op = world.operator_config();
        op.form = form;
        const Status s = run(op, world);
        ASSERT_TRUE(s.ok()) << s.error().message;
        expect_reference(op, world);
      }
    }
  }
}

TEST_P(OperatorTest, SameBitsForAnyNumberOfThreadsAndAnyBatch) {
  // 40 tokens of one request beside others, and alone, by 1, 2, 3 and 7 workers.
  const std::vector<Lengths2> mixed = {{40, 2100}, {3, 17}, {130, 5}};
  for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
    WorldConfig config;
    World first(config, mixed);
    OperatorConfig op = first.operator_config();
    op.form = form;
    ASSERT_TRUE(run(op, first, {&serial_executor(), 1}).ok());
    for (int threads : {2, 3, 7}) {
      World other(config, mixed);
      ASSERT_TRUE(run(op, other, {&default_executor(), threads}).ok());
      EXPECT_EQ(other.out, first.out) << name(form) << " " << threads;
      EXPECT_EQ(other.lse, first.lse);
      EXPECT_EQ(other.cache, first.cache);
    }
    World alone(config, mixed);
    alone.keep_first();
    ASSERT_TRUE(run(op, alone, {&default_executor(), 5}).ok());
    const std::int64_t count = 40 * config.num_heads * config.dims.v_head_dim;
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(alone.out.get(i), first.out.get(i)) << i;
  }
}

TEST_P(OperatorTest, AnyBudgetGivesTheReference) {
  const std::vector<Lengths2> mixed = {{200, 50}, {1, 700}, {90, 3}};
  for (Form form : kForms) {
    WorldConfig config;
    World world(config, mixed);
    OperatorConfig op = world.operator_config();
    op.form = form;
    op.scratch_bytes = 1;
    const Status s = run(op, world);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().field, "scratch_bytes");
    const std::int64_t least = least_from(s.error());
    for (std::int64_t budget : {least, least + 64, least + 30000, 2 * least, 5 * least}) {
      SCOPED_TRACE(std::string(name(form)) + " " + std::to_string(budget));
      World again(config, mixed);
      op.scratch_bytes = budget;
      const Status t = run(op, again);
      ASSERT_TRUE(t.ok()) << t.error().message;
      expect_reference(op, again);
    }
  }
}

TEST_P(OperatorTest, BothSidesOfEveryBlockEdge) {
  WorldConfig config;
  const attention::cpu::Shape shape{config.dtype, config.dims.qk_head_dim(),
                                    config.dims.v_head_dim};
  const attention::cpu::Blocking tile =
      attention::cpu::kernels_for(*GetParam().implementation->kernels(), shape).blocking(shape);
  std::vector<Lengths2> requests;
  for (std::int64_t context : {tile.block_k - 1, tile.block_k, tile.block_k + 1}) {
    requests.push_back({1, context});
    requests.push_back({2, context - 1});
  }
  for (std::int64_t tokens : {tile.block_q - 1, tile.block_q, tile.block_q + 1}) {
    requests.push_back({tokens, 0});
    requests.push_back({tokens, 15});
  }
  for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
    World world(config, requests);
    OperatorConfig op = world.operator_config();
    op.form = form;
    ASSERT_TRUE(run(op, world).ok());
    expect_reference(op, world);
  }
}

TEST_P(OperatorTest, AnySplitOfAPromptGivesTheSame) {
  const std::int64_t total = 83;
  WorldConfig config;
  World whole(config, {{total, 0}});
  OperatorConfig op_config = whole.operator_config();
  ASSERT_TRUE(run(op_config, whole).ok());
  for (const std::vector<std::int64_t>& steps :
       {std::vector<std::int64_t>{82, 1}, {1, 82}, {16, 16, 16, 35}, {17, 0, 31, 35}, {41, 42}}) {
    for (Form form : kForms) {
      World stepped(config, {{total, 0}});
      op_config.form = form;
      const Operator op = *make(op_config, stepped.weights());
      std::int64_t done = 0;
      for (std::int64_t step : steps) {
        const std::int32_t cu[2] = {0, static_cast<std::int32_t>(step)};
        Batch batch = stepped.batch();
        batch.cu_seqlens_q = cu;
        batch.context_lens = &done;
        const Plan plan = *op.plan(batch);
        ASSERT_TRUE(op.run(plan, stepped.args_from(done)).ok());
        done += step;
      }
      for (std::int64_t i = 0; i < whole.out.count(); ++i) {
        const double want = whole.out.get(i);
        ASSERT_NEAR(stepped.out.get(i), want, 2 * allowed_error(config.dtype, want));
      }
      EXPECT_EQ(stepped.cache, whole.cache);
    }
  }
}

TEST_P(OperatorTest, NegativeSlotsAreNotWrittenAndAreAttendedAllTheSame) {
  for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
    WorldConfig config;
    World world(config, {{9, 20}});
    World untouched(config, {{9, 20}});
    for (std::size_t t = 0; t < 9; t += 2) world.slot_mapping[t] = -1 - static_cast<int>(t);
    OperatorConfig op = world.operator_config();
    op.form = form;
    ASSERT_TRUE(run(op, world).ok());
    expect_reference(op, world);
    const std::int64_t width = world.row_width();
    for (std::size_t t = 0; t < 9; ++t) {
      const std::int64_t slot = untouched.slot_mapping[t];
      for (std::int64_t i = 0; i < width; ++i) {
        const float value = world.cache.get(slot * width + i);
        if (t % 2 == 0) {
          EXPECT_TRUE(std::isnan(value));
        } else {
          const auto token = static_cast<std::int64_t>(t);
          EXPECT_EQ(value, i < config.kv_lora_rank
                               ? world.kv_c.get(token * config.kv_lora_rank + i)
                               : world.k_pe.get(token * config.dims.qk_rope_head_dim + i -
                                                config.kv_lora_rank));
        }
      }
    }
    World nothing(config, {{9, 20}});
    Result<Operator> made = make(op, nothing.weights());
    RunArgs args = nothing.args();
    args.slot_mapping = nullptr;
    ASSERT_TRUE(made->run(*made->plan(nothing.batch()), args).ok());
    EXPECT_EQ(nothing.out, world.out);
    EXPECT_EQ(nothing.cache, untouched.cache);
  }
}

TEST_P(OperatorTest, BlocksMayBeShared) {
  for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
    WorldConfig config;
    World world(config, {{4, 40}, {6, 40}});
    // Both read the first two pages of request 0; each has its own third.
    for (std::int64_t b = 0; b < 2; ++b) {
      world.block_table[static_cast<std::size_t>(world.max_blocks + b)] =
          world.block_table[static_cast<std::size_t>(b)];
    }
    OperatorConfig op = world.operator_config();
    op.form = form;
    ASSERT_TRUE(run(op, world).ok());
    expect_reference(op, world);
  }
}

TEST_P(OperatorTest, CacheOfAnotherDtype) {
  for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
    WorldConfig config;
    config.cache_dtype = DType::kBFloat16;
    World world(config, {{7, 50}, {30, 0}});
    OperatorConfig op = world.operator_config();
    op.form = form;
    ASSERT_TRUE(run(op, world).ok());
    expect_reference(op, world);
  }
}

TEST_P(OperatorTest, StridesOfEverything) {
  for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
    WorldConfig config;
    config.block_size = 4;
    World world(config, {{7, 50}, {30, 1}});
    OperatorConfig op = world.operator_config();
    op.form = form;
    ASSERT_TRUE(run(op, world).ok());
    World strided(config, {{7, 50}, {30, 1}});
    strided.spread_out();
    Result<Operator> made = make(op, strided.split_weights());
    ASSERT_TRUE(made.ok());
    RunArgs args = strided.spread_args();
    const Status s = made->run(*made->plan(strided.batch()), args);
    ASSERT_TRUE(s.ok()) << s.error().message;
    for (std::int64_t t = 0; t < world.total_tokens(); ++t) {
      for (std::int64_t h = 0; h < config.num_heads; ++h) {
        for (std::int64_t d = 0; d < config.dims.v_head_dim; ++d) {
          ASSERT_EQ(strided.out.get(t * args.out.token_stride + h * args.out.head_stride + d),
                    world.out.get((t * config.num_heads + h) * config.dims.v_head_dim + d));
        }
      }
    }
  }
}

TEST_P(OperatorTest, NaNStaysWithTheRowsThatSeeIt) {
  for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
    WorldConfig config;
    World clean(config, {{20, 30}, {5, 9}});
    World dirty(config, {{20, 30}, {5, 9}});
    OperatorConfig op = clean.operator_config();
    op.form = form;
    ASSERT_TRUE(run(op, clean).ok());
    // New token 12 of request 0: rows 12..19 see it.
    dirty.kv_c.set(12 * config.kv_lora_rank + 3, std::numeric_limits<float>::quiet_NaN());
    dirty.k_pe.set(12 * config.dims.qk_rope_head_dim, std::numeric_limits<float>::infinity());
    ASSERT_TRUE(run(op, dirty).ok());
    const std::int64_t row = config.num_heads * config.dims.v_head_dim;
    for (std::int64_t i = 0; i < clean.out.count(); ++i) {
      const std::int64_t token = i / row;
      if (token >= 12 && token < 20) {
        ASSERT_TRUE(std::isnan(dirty.out.get(i))) << token;
      } else {
        ASSERT_EQ(dirty.out.get(i), clean.out.get(i)) << token;
      }
    }
  }
}

TEST_P(OperatorTest, UnusualShapes) {
  for (const auto& [heads, dims, rank] :
       {std::tuple{std::int64_t{1}, MlaDims{0, 8, 5}, std::int64_t{7}},
        std::tuple{std::int64_t{2}, MlaDims{9, 0, 33}, std::int64_t{1}},
        std::tuple{std::int64_t{5}, MlaDims{1, 1, 1}, std::int64_t{50}}}) {
    for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
      WorldConfig config;
      config.num_heads = heads;
      config.dims = dims;
      config.kv_lora_rank = rank;
      World world(config, {{7, 50}, {30, 1}});
      OperatorConfig op = world.operator_config();
      op.form = form;
      ASSERT_TRUE(run(op, world).ok());
      expect_reference(op, world);
    }
  }
}

TEST_P(OperatorTest, NothingToDo) {
  WorldConfig config;
  World none(config, {});
  const Operator op = *make(none.operator_config(), none.weights());
  EXPECT_TRUE(op.run(*op.plan({}), {}).ok());
  World idle(config, {{0, 30}, {0, 0}});
  const Plan plan = *op.plan(idle.batch());
  EXPECT_TRUE(op.run(plan, idle.args()).ok());
  EXPECT_EQ(plan.requests[0].reason, FormReason::kNothingToDo);
}

INSTANTIATE_TEST_SUITE_P(Rows, OperatorTest, testing::ValuesIn(test_rows()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace mla::prefill
