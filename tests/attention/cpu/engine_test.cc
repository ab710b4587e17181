// The engine over every table this machine can run: laws of the schedule rather than samples.
#include "attention/cpu/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "attention/cpu/kernels_check.h"
#include "attention/test_batch.h"

namespace mla::attention::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A team of real threads, or the workers one after the other from the last to the first.
class TestExecutor final : public Executor {
 public:
  TestExecutor(int offered, bool threads) : offered_(offered), threads_(threads) {}
  int concurrency() const override { return offered_; }
  void run(int workers, Body body, void* context) override {
    most_workers = std::max(most_workers, workers);
    std::vector<std::thread> team;
    for (int w = workers - 1; w >= 0; --w) {
      if (threads_) {
        team.emplace_back(body, context, w);
      } else {
        body(context, w);
      }
    }
    for (std::thread& thread : team) thread.join();
  }
  int most_workers = 0;

 private:
  int offered_;
  bool threads_;
};

std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> found;
  for (const char* name : {"portable", "avx2", "avx512", "neon"}) {
    const Kernels* const table = find_kernels(name);
    if (table != nullptr && runs_here(name)) found.push_back(table);
  }
  return found;
}

class EngineTest : public testing::TestWithParam<const Kernels*> {
 protected:
  void run(TestBatch& batch, Executor& executor) {
    std::fill(batch.out.begin(), batch.out.end(), -77.0f);
    std::fill(batch.lse.begin(), batch.lse.end(), -77.0f);
    RunOptions options;
    options.executor = &executor;
    ASSERT_TRUE(attend(*GetParam(), batch.args, options).ok());
  }
  // Against the reference, with the contract's tolerances.
  void check(TestBatch& batch) {
    run(batch, serial_executor());
    const TestBatch::Answer want = batch.reference();
    ASSERT_TRUE(want.status.ok());
    for (std::size_t i = 0; i < batch.out.size(); ++i) {
      if (std::isnan(want.out[i])) {
        ASSERT_TRUE(std::isnan(batch.out[i])) << i;
      } else {
        ASSERT_NEAR(batch.out[i], want.out[i], 2e-5 * (1 + std::fabs(want.out[i]))) << i;
      }
    }
    for (std::size_t i = 0; i < batch.lse.size(); ++i) {
      if (std::isfinite(want.lse[i])) {
        ASSERT_NEAR(batch.lse[i], want.lse[i], 1e-5 * (1 + std::fabs(want.lse[i]))) << i;
      } else if (std::isnan(want.lse[i])) {
        ASSERT_TRUE(std::isnan(batch.lse[i])) << i;
      } else {
        ASSERT_EQ(batch.lse[i], static_cast<float>(want.lse[i])) << i;
      }
    }
  }
  void expect_same_bits(TestBatch& batch) {
    run(batch, serial_executor());
    const std::vector<float> out = batch.out;
    const std::vector<float> lse = batch.lse;
    for (int workers : {2, 3, 8}) {
      for (bool threads : {false, true}) {
        TestExecutor executor(workers, threads);
        run(batch, executor);
        ASSERT_EQ(0, std::memcmp(out.data(), batch.out.data(), out.size() * sizeof(float)))
            << workers << (threads ? " threads" : " workers in a row");
        ASSERT_EQ(0, std::memcmp(lse.data(), batch.lse.data(), lse.size() * sizeof(float)));
      }
    }
  }
};

BatchSpec ragged() { return {{5, 0, 130, 1, 300, 7}, {5, 9, 130, 0, 517, 3}, 3, 24, 20}; }
// One unit with many query blocks; one with few rows over many keys, which is split.
BatchSpec lopsided() { return {{700, 3, 1}, {700, 9000, 5000}, 1, 12, 8}; }

// So many panels that query blocks walk over them together, more of them the fewer workers there
// are.
BatchSpec walking() { return {{400, 1000}, {2700, 2600}, 2, 24, 20}; }

TEST_P(EngineTest, RaggedBatchesMatchTheReference) {
  for (const BatchSpec& spec :
       {ragged(), lopsided(), walking(), BatchSpec{{400}, {400}, 2, 192, 128}}) {
    for (bool causal : {true, false}) {
      TestBatch batch(spec);
      batch.fill(1);
      batch.args.causal = causal;
      batch.args.scale = 0.2f;
      check(batch);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(EngineTest, BitsDoNotDependOnTheWorkers) {
  for (const BatchSpec& spec : {ragged(), lopsided(), walking()}) {
    TestBatch batch(spec);
    batch.fill(2);
    expect_same_bits(batch);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EngineTest, BitsDoNotDependOnTheOtherRequests) {
  TestBatch batch(ragged());
  batch.fill(3);
  run(batch, serial_executor());
  const BatchSpec spec = ragged();
  for (std::size_t r = 0; r < spec.q_lengths.size(); ++r) {
    TestBatch alone(
        {{spec.q_lengths[r]}, {spec.k_lengths[r]}, spec.heads, spec.qk_dim, spec.v_dim});
    const auto copy = [&](const std::vector<float>& from, std::int64_t first, std::int64_t dim,
                          std::vector<float>& to) {
      const auto begin = from.begin() + first * spec.heads * dim;
      std::copy(begin, begin + static_cast<std::ptrdiff_t>(to.size()), to.begin());
    };
    copy(batch.q, batch.cu_q[r], spec.qk_dim, alone.q);
    copy(batch.k, batch.cu_k[r], spec.qk_dim, alone.k);
    copy(batch.v, batch.cu_k[r], spec.v_dim, alone.v);
    run(alone, serial_executor());
    for (std::size_t i = 0; i < alone.out.size(); ++i) {
      const auto at = static_cast<std::size_t>(batch.cu_q[r] * spec.heads * spec.v_dim) + i;
      ASSERT_EQ(alone.out[i], batch.out[at]) << "request " << r;
    }
  }
}

TEST_P(EngineTest, HeadsThatShareKeysAreFoldedIntoRows) {
  for (const BatchSpec& spec :
       {BatchSpec{{37, 2}, {300, 2}, 5, 24, 20}, BatchSpec{{2}, {6000}, 16, 24, 20}}) {
    TestBatch batch(spec);
    batch.fill(4);
    batch.args.k.head_stride = 0;
    batch.args.v.head_stride = 0;
    check(batch);
    if (HasFatalFailure()) return;
    expect_same_bits(batch);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EngineTest, RowsThatSeeNothingAreEmpty) {
  TestBatch batch({{9, 4}, {3, 0}, 2, 8, 8});
  batch.fill(5);
  for (float& x : batch.v) x = kNaN;  // seen by the last three rows only
  run(batch, serial_executor());
  for (std::size_t token = 0; token < 13; ++token) {
    const bool sees = token >= 6 && token < 9;
    for (std::size_t i = 0; i < 16; ++i) {
      const float x = batch.out[token * 16 + i];
      ASSERT_TRUE(sees ? std::isnan(x) : x == 0) << token;
    }
    ASSERT_EQ(std::isinf(batch.lse[token]), !sees);
  }
}

TEST_P(EngineTest, NotANumberStaysInItsRow) {
  TestBatch batch({{200}, {200}, 1, 16, 16});
  batch.fill(6);
  run(batch, serial_executor());
  const std::vector<float> clean = batch.out;
  for (int d = 0; d < 16; ++d) batch.q[static_cast<std::size_t>(50 * 16 + d)] = kNaN;
  // Keys 150 and up are poison: rows below 150 do not see them.
  for (std::size_t i = 150 * 16; i < batch.v.size(); ++i) {
    batch.k[i] = kNaN;
    batch.v[i] = std::numeric_limits<float>::infinity();
  }
  run(batch, serial_executor());
  for (std::size_t i = 0; i < batch.out.size(); ++i) {
    const std::size_t row = i / 16;
    if (row == 50 || row >= 150) {
      ASSERT_FALSE(std::isfinite(batch.out[i])) << row;
    } else {
      ASSERT_EQ(batch.out[i], clean[i]) << row;
    }
  }
}

TEST_P(EngineTest, LargeScores) {
  for (float size : {100.0f, 1e4f}) {
    TestBatch batch({{40}, {600}, 1, 1, 4});
    batch.fill(7);
    // Exact in float32, far apart: the largest key decides.
    for (std::size_t i = 0; i < batch.k.size(); ++i) {
      batch.k[i] = size * static_cast<float>(static_cast<int>(i * 37 % 601) - 300) / 256;
    }
    for (float& x : batch.q) x = x < 0 ? -1.0f : 1.0f;
    check(batch);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EngineTest, RequestsMayStartAnywhere) {
  TestBatch batch({{6, 11}, {8, 11}, 2, 8, 4});
  batch.fill(8);
  run(batch, serial_executor());
  const std::vector<float> straight = batch.out;
  // The same tokens, the requests' memory exchanged.
  const std::int64_t q_offsets[] = {0, 6 * 16}, k_offsets[] = {0, 8 * 16}, v_offsets[] = {0, 8 * 8};
  const std::int64_t out_offsets[] = {11 * 8, 0};
  batch.args.q.request_offsets = q_offsets;
  batch.args.k.request_offsets = k_offsets;
  batch.args.v.request_offsets = v_offsets;
  batch.args.out.request_offsets = out_offsets;
  run(batch, serial_executor());
  for (std::size_t i = 0; i < 6 * 8; ++i) ASSERT_EQ(batch.out[11 * 8 + i], straight[i]);
  for (std::size_t i = 0; i < 11 * 8; ++i) ASSERT_EQ(batch.out[i], straight[6 * 8 + i]);
}

TEST_P(EngineTest, SmallWorkStaysOnOneThread) {
  TestExecutor executor(64, false);
  TestBatch small({{4}, {4}, 2, 8, 8});
  small.fill(9);
  run(small, executor);
  EXPECT_EQ(executor.most_workers, 1);
  TestBatch large({{600}, {600}, 2, 192, 128});
  large.fill(9);
  run(large, executor);
  EXPECT_GT(executor.most_workers, 4);
}

INSTANTIATE_TEST_SUITE_P(Tables, EngineTest, testing::ValuesIn(tables()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace mla::attention::cpu
