// The operator against the reference, and the laws: any form, budget, split, paging and number of
// threads give the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "mla/prefill.h"
#include "prefill/rows.h"
#include "prefill/world.h"

namespace mla::prefill {
namespace {

class OperatorTest : public testing::TestWithParam<TestRow> {
 protected:
  bool supports(DType dtype, const MlaDims& dims) const {
    return GetParam().implementation->kernels()->supports(
        {dtype, dims.qk_head_dim(), dims.v_head_dim});
  }
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

constexpr Form kForms[] = {Form::kExpanded, Form::kAbsorbed, Form::kAuto};

TEST_P(OperatorTest, EqualsTheReferenceInBothForms) {
  const std::vector<Lengths2> mixed = {{5, 37}, {0, 20}, {1, 300}, {70, 0}, {0, 0}, {33, 16}};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (std::int64_t block_size : {1, 3, 16, 64}) {
      WorldConfig config;
      config.dtype = config.cache_dtype = dtype;
      config.block_size = block_size;
      if (!supports(dtype, config.dims)) continue;
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

INSTANTIATE_TEST_SUITE_P(Rows, OperatorTest, testing::ValuesIn(test_rows()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace mla::prefill
