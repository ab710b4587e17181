// The yardstick of `mla run` and `mla bench` must itself be able to fail.
#include "bench/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bench/sampling.h"
#include "bench/shape.h"
#include "bench/tensor.h"

namespace mla::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Accuracy, HoldsEachElementToItsOwnLimit) {
  Comparison comparison(DType::kFloat32, 1.0, KeySource::kGiven);
  comparison.out(1.0 + 3.9e-5, 1.0);
  EXPECT_TRUE(comparison.accuracy().passed());
  comparison.out(4.1e-5, 0.0);
  EXPECT_FALSE(comparison.accuracy().passed());
  EXPECT_NEAR(comparison.accuracy().out.allowed, 2e-5, 1e-12);
}

TEST(Accuracy, LogSumExpCounts) {
  Comparison comparison(DType::kBFloat16, 1.0, KeySource::kGiven);
  comparison.lse(5.0009, 5.0);
  EXPECT_TRUE(comparison.accuracy().passed());
  comparison.lse(5.0011, 5.0);
  EXPECT_FALSE(comparison.accuracy().passed());
}

TEST(Accuracy, LimitsAreThoseOfTheDocs) {
  Comparison half(DType::kFloat16, 1.0, KeySource::kGiven);
  half.out(0.0, 1.0);
  EXPECT_NEAR(half.accuracy().out.allowed, ulp(DType::kFloat16, 1.0) + 2e-3, 1e-12);
  half.lse(0.0, 4e6);  // where float32 itself is no better
  EXPECT_NEAR(half.accuracy().lse.allowed, 4e6 / 1048576, 1e-9);
}

TEST(Accuracy, EmptyRowsAgreeAndNothingElseInfiniteDoes) {
  Comparison comparison(DType::kBFloat16, 1.0, KeySource::kProjected);
  comparison.lse(-kInfinity, -kInfinity);
  EXPECT_TRUE(comparison.accuracy().passed());
  comparison.out(std::nan(""), 0.0);
  EXPECT_FALSE(comparison.accuracy().passed());
}

TEST(Tensor, FillsTheSameNumbersInEveryType) {
  Result<Tensor> wide = Tensor::make(DType::kFloat32, 4096, "wide");
  Result<Tensor> half = Tensor::make(DType::kFloat16, 4096, "half");
  Result<Tensor> brain = Tensor::make(DType::kBFloat16, 4096, "brain");
  ASSERT_TRUE(wide && half && brain);
  for (Tensor* tensor : {&*wide, &*half, &*brain}) tensor->fill(7, 1.0);
  EXPECT_NEAR(wide->rms(), 1.0, 0.05);
  for (std::int64_t i = 0; i < 4096; ++i) {
    const double value = wide->get(i);
    EXPECT_LE(std::fabs(half->get(i) - value), 0.5 * ulp(DType::kFloat16, value) * 1.001);
    EXPECT_LE(std::fabs(brain->get(i) - value), 0.5 * ulp(DType::kBFloat16, value) * 1.001);
  }
}

TEST(Tensor, RefusesAbsurdSizes) {
  const Result<Tensor> tensor =
      Tensor::make(DType::kFloat32, std::numeric_limits<std::int64_t>::max() / 2, "q");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, ErrorCode::kOutOfMemory);
}

TEST(Shape, CountsVisiblePairs) {
  Shape shape;
  shape.num_heads = 2;
  shape.dims = {3, 1, 5};
  shape.requests = {{4, 0}, {2, 10}, {0, 3}};
  EXPECT_EQ(visible_pairs(shape), 10 + (2 * 10 + 3));
  EXPECT_EQ(flops(shape), 2.0 * 2 * (4 + 5) * 33);
  EXPECT_EQ(new_tokens(shape), 6);
  EXPECT_EQ(key_tokens(shape), 19);
}

TEST(Shape, UnevenAndEvenBatchesAreTheSameWork) {
  double uneven = 0.0;
  double even = 0.0;
  for (const Shape& shape : standard_shapes(DType::kBFloat16)) {
    if (shape.name == "uneven-8x") uneven = visible_pairs(shape);
    if (shape.name == "even-8x") even = visible_pairs(shape);
  }
  ASSERT_GT(uneven, 0.0);
  EXPECT_NEAR(even / uneven, 1.0, 0.002);
}

TEST(Speed, SharesAreTakenBeforeTheMedian) {
  // The machine halves its clock for the second sample: the share does not move.
  const auto taken = [](double seconds, double probe) {
    return Sample{.seconds = seconds, .probe_before = probe, .probe_after = probe};
  };
  const Speed speed = speed_of({taken(1, 100), taken(2, 50), taken(1, 100)}, 80e9);
  EXPECT_EQ(speed.samples, 3);
  EXPECT_DOUBLE_EQ(speed.median_share, 0.8);
  EXPECT_DOUBLE_EQ(speed.best_share, 0.8);
  EXPECT_DOUBLE_EQ(speed.best_gflops, 80.0);
}

}  // namespace
}  // namespace mla::bench
