// The comparisons of `mla bench`.
#include "bench/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mla::bench {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

TimedFigure figure(const char* row, const char* shape, int threads, double share, double gflops) {
  TimedFigure timed{row, shape, threads, {}};
  timed.speed.samples = 1;
  timed.speed.median_share = share;
  timed.speed.median_gflops = gflops;
  return timed;
}

auto comparison(const char* row, const char* what, double ratio) {
  return AllOf(Field(&SpeedRatio::row, row), Field(&SpeedRatio::what, what),
               Field(&SpeedRatio::ratio, DoubleEq(ratio)));
}

TEST(Comparisons, OfThreadsIsTheRatioTakenInTurns) {
  TimedFigure two = figure("A", "prompt-512", 2, 0.6, 90);
  two.over_one_thread = 1.9;
  EXPECT_THAT(compare({figure("A", "prompt-512", 1, 0.8, 80), two, figure("A", "b", 2, 1, 1)}),
              ElementsAre(comparison("A", "prompt-512, 2 threads over 1", 1.9)));
}

TEST(Scaling, IsTheMedianOfTheTurns) {
  const auto taken = [](double wall) { return Sample{.seconds = 9, .wall_seconds = wall}; };
  EXPECT_DOUBLE_EQ(scaling({taken(1), taken(2), taken(1)}, {taken(2), taken(2), taken(1.5)}), 1.5);
  EXPECT_DOUBLE_EQ(scaling({taken(1), taken(1)}, {taken(2)}), 2.0);
  EXPECT_DOUBLE_EQ(scaling({}, {taken(2)}), 0.0);
}

TEST(Comparisons, OfShapesIsAtTheSameThreads) {
  EXPECT_THAT(compare({figure("A", "even-8x", 1, 0.5, 1), figure("A", "even-8x", 2, 0.25, 1),
                       figure("A", "uneven-8x", 1, 0.25, 1), figure("A", "prompt-2048", 1, 0.8, 1),
                       figure("A", "prompt-2048-h128", 1, 0.4, 1)}),
              ElementsAre(comparison("A", "uneven-8x over even-8x, 1 thread", 0.5),
                          comparison("A", "prompt-2048-h128 over prompt-2048, 1 thread", 0.5)));
}

TEST(Comparisons, WithoutAProbeIsOfSpeedsAndWithoutASampleIsNotMade) {
  EXPECT_THAT(compare({figure("A", "even-8x", 1, 0, 10), figure("A", "uneven-8x", 1, 0, 9)}),
              ElementsAre(comparison("A", "uneven-8x over even-8x, 1 thread", 0.9)));
  EXPECT_THAT(compare({figure("A", "even-8x", 1, 0, 0), figure("A", "uneven-8x", 1, 0.5, 9)}),
              IsEmpty());
}

}  // namespace
}  // namespace mla::bench
