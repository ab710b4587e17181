// run() allocates nothing and plan() allocates no more than the budget: counted at malloc, below
// operator new. Two workers in turn, since some OpenMP runtimes allocate for each parallel region.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "mla/prefill.h"
#include "prefill/rows.h"
#include "prefill/world.h"

namespace {
std::atomic<long> allocations{0};
std::atomic<long> largest{0};

void note(std::size_t bytes) {
  ++allocations;
  if (static_cast<long>(bytes) > largest) largest = static_cast<long>(bytes);
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void* malloc(std::size_t bytes) {
  note(bytes);
  return __libc_malloc(bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
}

namespace mla::prefill {
namespace {

TEST(Allocation, TheCounterCounts) {
  const long before = allocations;
  void* volatile plain = std::malloc(100);  // volatile: a compiler may leave out an unused pair
  void* volatile aligned = ::operator new (100, std::align_val_t{64});
  const long counted = allocations - before;
  std::free(plain);
  ::operator delete (aligned, std::align_val_t{64});
  EXPECT_EQ(counted, 2);
}

TEST(Allocation, RunAllocatesNothingAndPlanKeepsToTheBudget) {
  for (const TestRow& row : test_rows()) {
    for (Form form : {Form::kExpanded, Form::kAbsorbed, Form::kAuto}) {
      World world({}, {{5, 37}, {1, 9000}, {300, 0}, {33, 4000}});
      OperatorConfig config = world.operator_config();
      config.form = form;
      config.scratch_bytes = std::int64_t{3} << 20;
      const Operator op = *Operator::create(config, world.weights(), row.implementation);
      largest = 0;
      const Result<Plan> plan = op.plan(world.batch(), {&serial_executor(), 2});
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      EXPECT_LE(largest, config.scratch_bytes);
      EXPECT_LE(plan->scratch_bytes, config.scratch_bytes);
      const RunArgs args = world.args();
      ASSERT_TRUE(op.run(*plan, args).ok());
      const long before = allocations;
      const Status s = op.run(*plan, args);
      EXPECT_EQ(allocations - before, 0) << row.name << " " << name(form);
      EXPECT_TRUE(s.ok());
    }
  }
}

TEST(Allocation, TheDefaultBudgetIsEnoughFor128HeadsAt128kOfContext) {
  for (const TestRow& row : test_rows()) {
    OperatorConfig config;
    config.num_heads = 128;
    config.dims = {128, 64, 128};
    config.kv_lora_rank = 512;
    const std::vector<char> zeros(static_cast<std::size_t>(128 * 256 * 512 * 2));
    Weights weights;
    weights.kv_b_proj = zeros.data();
    for (Form form : {Form::kExpanded, Form::kAbsorbed}) {
      config.form = form;
      const Operator op = *Operator::create(config, weights, row.implementation);
      for (std::int32_t new_tokens : {1, 100, 2048, 131072}) {
        const std::int32_t cu[2] = {0, new_tokens};
        const std::int64_t context = 131072;
        const std::int32_t block = 0;
        Batch batch;
        batch.num_requests = 1;
        batch.cu_seqlens_q = cu;
        batch.context_lens = &context;
        batch.block_table = {&block, 1, 0};  // read by run() only
        for (int workers : {1, 2, 64}) {
          const Result<Plan> plan = op.plan(batch, {nullptr, workers});
          ASSERT_TRUE(plan.ok()) << plan.error().message;
          EXPECT_LE(plan->scratch_bytes, std::int64_t{256} << 20);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mla::prefill
