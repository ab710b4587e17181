// The bandwidth probe reads memory, not a cache that holds all of its buffer.
#include "bench/bandwidth.h"

#include <gtest/gtest.h>

namespace mla::bench {
namespace {

TEST(Bandwidth, CoversWhatIsAskedForAndAtLeastSeveralSecondCaches) {
  EXPECT_GE(BandwidthProbe::make(0)->bytes(), BandwidthProbe::kLeastBytes);
  const std::int64_t large = 3 * BandwidthProbe::kLeastBytes + 1;
  EXPECT_GE(BandwidthProbe::make(large)->bytes(), large);
}

TEST(Bandwidth, IsPositiveAndBelowWhatACoreCanLoad) {
  const Result<BandwidthProbe> probe = BandwidthProbe::make(0);
  ASSERT_TRUE(probe.ok());
  const double speed = probe->gigabytes_per_second();
  EXPECT_GT(speed, 0.01);
  EXPECT_LT(speed, 2000.0);  // two lines a cycle
}

TEST(Bandwidth, NoMemoryIsAnError) {
  const Result<BandwidthProbe> probe = BandwidthProbe::make(std::int64_t{1} << 60);
  ASSERT_FALSE(probe.ok());
  EXPECT_EQ(probe.error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace mla::bench
