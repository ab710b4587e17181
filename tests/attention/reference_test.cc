// The reference against values worked by hand, and its edges: everything else is measured by it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention/test_batch.h"

namespace mla::attention {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Scores ln 1, ln 2, ln 5 for one query: weights 1/8, 2/8, 5/8.
TEST(Reference, WeightsByHand) {
  TestBatch batch({{1}, {3}, 1, 1, 2});
  batch.q = {1.0f};
  batch.k = {0.0f, std::log(2.0f), std::log(5.0f)};
  batch.v = {8, 0, 0, 8, 16, 16};
  const auto answer = batch.reference();
  ASSERT_TRUE(answer.status.ok());
  EXPECT_NEAR(answer.out[0], 1 * 8.0 / 8 + 5 * 16.0 / 8, 1e-6);
  EXPECT_NEAR(answer.out[1], 2 * 8.0 / 8 + 5 * 16.0 / 8, 1e-6);
  EXPECT_NEAR(answer.lse[0], std::log(8.0), 1e-7);
  EXPECT_EQ(batch.out[0], -77.0f) << "args.out is not the reference's";
}

// All scores equal: the mean of the keys seen, lse ln(count) + score.
TEST(Reference, CausalIsAlignedToTheBottomRight) {
  TestBatch batch({{2}, {4}, 1, 1, 1});
  batch.v = {1, 2, 6, 100};
  batch.q = {0, 0};
  const auto answer = batch.reference();
  EXPECT_DOUBLE_EQ(answer.out[0], 3.0);  // three keys
  EXPECT_DOUBLE_EQ(answer.out[1], 109.0 / 4);
  EXPECT_DOUBLE_EQ(answer.lse[0], std::log(3.0));
  EXPECT_DOUBLE_EQ(answer.lse[1], std::log(4.0));
}

TEST(Reference, MoreQueriesThanKeysLeavesTheFirstRowsEmpty) {
  TestBatch batch({{3}, {1}, 1, 1, 1});
  batch.v = {5};
  const auto answer = batch.reference();
  EXPECT_EQ(answer.out, (std::vector<double>{0, 0, 5}));
  EXPECT_EQ(answer.lse, (std::vector<double>{-kInf, -kInf, 0}));
}

TEST(Reference, CausalOffsetsTakeAnyValue) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const struct {
    std::int64_t offset;
    double first, last;
  } cases[] = {{0, 1, 1.5}, {1, 1.5, 3},  {-1, 0, 1},  {-2, 0, 0},
               {2, 3, 3},   {kMax, 3, 3}, {kMin, 0, 0}};
  for (const auto& c : cases) {
    TestBatch batch({{2}, {3}, 1, 1, 1});
    batch.v = {1, 2, 6};
    batch.args.causal_offsets = &c.offset;
    const auto answer = batch.reference();
    EXPECT_DOUBLE_EQ(answer.out[0], c.first) << c.offset;
    EXPECT_DOUBLE_EQ(answer.out[1], c.last) << c.offset;
    batch.args.causal = false;
    EXPECT_DOUBLE_EQ(batch.reference().out[0], 3) << "offsets mean nothing without causal";
  }
}

TEST(Reference, ZeroLengthsOfEveryKind) {
  TestBatch nothing({{}, {}, 2, 3, 4});
  EXPECT_TRUE(nothing.reference().status.ok());
  TestBatch batch({{0, 2, 0, 1}, {3, 0, 0, 1}, 1, 1, 1});
  batch.v = {9, 9, 9, 4};
  batch.args.causal = false;
  const auto answer = batch.reference();
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.out, (std::vector<double>{0, 0, 4}));
  EXPECT_EQ(answer.lse, (std::vector<double>{-kInf, -kInf, 0}));
}

TEST(Reference, WithoutKeysTheirStridesAreFree) {
  TestBatch batch({{2, 1}, {0, 0}, 3, 2, 1});
  batch.args.k.token_stride = batch.args.k.head_stride = std::numeric_limits<std::int64_t>::max();
  batch.args.v.token_stride = batch.args.v.head_stride = std::numeric_limits<std::int64_t>::min();
  const auto answer = batch.reference();
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.out, std::vector<double>(9, 0));
  EXPECT_EQ(answer.lse, std::vector<double>(9, -kInf));
}

TEST(Reference, MaskedKeysAreNotRead) {
  TestBatch batch({{2}, {2}, 1, 1, 1});
  batch.v = {3, kNaN};
  batch.k = {0, kNaN};
  const auto answer = batch.reference();
  EXPECT_EQ(answer.out[0], 3);
  EXPECT_EQ(answer.lse[0], 0);
  EXPECT_TRUE(std::isnan(answer.out[1]));
  EXPECT_TRUE(std::isnan(answer.lse[1]));
}

TEST(Reference, HugeScoresDoNotOverflow) {
  TestBatch batch({{1}, {2}, 1, 1, 1});
  batch.q = {1e4f};
  batch.k = {1.0f, -1.0f};
  batch.v = {2, 7};
  const auto answer = batch.reference();
  EXPECT_EQ(answer.out[0], 2);
  EXPECT_EQ(answer.lse[0], 1e4);
  batch.args.scale = -1.0f;
  EXPECT_EQ(batch.reference().out[0], 7);
  batch.args.scale = 0.0f;
  EXPECT_EQ(batch.reference().out[0], 4.5);
}

TEST(Reference, EitherOutputMayBeLeftOut) {
  TestBatch batch({{40}, {90}, 2, 9, 5});
  batch.fill(3);
  const auto both = batch.reference();
  std::vector<double> out(both.out.size()), lse(both.lse.size());
  RunOptions serial{&serial_executor(), 3};
  ASSERT_TRUE(reference(batch.args, out.data(), nullptr, serial).ok());
  ASSERT_TRUE(reference(batch.args, nullptr, lse.data(), serial).ok());
  EXPECT_EQ(out, both.out);
  EXPECT_EQ(lse, both.lse);
}

TEST(Reference, ScoresThatCannotBeHeldAreAnError) {
#if MLA_SANITIZED
  GTEST_SKIP() << "the sanitizers' allocators end the program instead of failing";
#endif
  // 2^48 keys that are all the same one.
  TestBatch batch({{1}, {std::int64_t{1}}, 1, 1, 1});
  const std::int64_t cu_k[] = {0, std::int64_t{1} << 48};
  batch.args.cu_seqlens_k = CuSeqlens(cu_k);
  batch.args.total_k = cu_k[1];
  batch.args.k.token_stride = batch.args.v.token_stride = 0;
  const auto answer = batch.reference();
  ASSERT_FALSE(answer.status.ok());
  EXPECT_EQ(answer.status.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(answer.out[0], -77.0);
}

}  // namespace
}  // namespace mla::attention
