// What merging is, as algebra: neutral element, commutative, associative.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "mla/attention.h"

namespace mla::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::int64_t kTokens = 7, kHeads = 3, kDim = 33;

struct Part {
  std::vector<float> out = std::vector<float>(kTokens * kHeads * kDim);
  std::vector<float> lse = std::vector<float>(kTokens * kHeads);

  friend bool operator==(const Part&, const Part&) = default;
};

Part merged(const Part& a, const Part& b) {
  Part result;
  MergeArgs args;
  args.num_tokens = kTokens;
  args.num_heads = kHeads;
  args.v_head_dim = kDim;
  args.dtype = args.out_dtype = DType::kFloat32;
  args.a = {a.out.data(), kHeads * kDim, kDim, nullptr};
  args.b = {b.out.data(), kHeads * kDim, kDim, nullptr};
  args.out = {result.out.data(), kHeads * kDim, kDim, nullptr};
  args.lse_a = a.lse.data();
  args.lse_b = b.lse.data();
  args.lse = result.lse.data();
  const Status status = merge(args);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return result;
}

// Rows of very different weight, some of them empty in one of the two ways.
Part random_part(std::mt19937_64& random) {
  Part part;
  std::normal_distribution<float> normal;
  const float spread = std::pow(10.0f, std::uniform_real_distribution<float>(-1, 2)(random));
  for (float& x : part.out) x = normal(random);
  for (std::size_t row = 0; row < part.lse.size(); ++row) {
    part.lse[row] = spread * normal(random);
    const std::uint64_t kind = random() % 12;
    if (kind == 0) part.lse[row] = -kInf;
    if (kind == 1) part.lse[row] = kInf;
  }
  return part;
}

constexpr std::uint64_t kSeeds = 200;

TEST(MergeLaws, NothingIsNeutral) {
  Part nothing;
  std::fill(nothing.lse.begin(), nothing.lse.end(), -kInf);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    Part part = random_part(random);
    // An empty row is (0, -inf) afterwards, however it was written.
    for (std::size_t row = 0; row < part.lse.size(); ++row) {
      if (!std::isinf(part.lse[row])) continue;
      part.lse[row] = -kInf;
      // [H,T] to [T,H].
      const std::size_t at = row % kTokens * kHeads + row / kTokens;
      std::fill_n(part.out.begin() + static_cast<std::ptrdiff_t>(at * kDim), kDim, 0.0f);
    }
    ASSERT_EQ(merged(part, nothing), part) << "seed " << seed;
    ASSERT_EQ(merged(nothing, part), part) << "seed " << seed;
  }
}

TEST(MergeLaws, CommutesToTheLastBit) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const Part a = random_part(random);
    const Part b = random_part(random);
    ASSERT_EQ(merged(a, b), merged(b, a)) << "seed " << seed;
  }
}

TEST(MergeLaws, IsAssociativeWithinOneInAMillion) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const Part a = random_part(random);
    const Part b = random_part(random);
    const Part c = random_part(random);
    const Part left = merged(merged(a, b), c);
    const Part right = merged(a, merged(b, c));
    for (std::size_t i = 0; i < left.out.size(); ++i) {
      // What is added may cancel: relative to the terms.
      const std::size_t row = i / kDim % kHeads * kTokens + i / kDim / kHeads;
      const float scale = std::max({std::fabs(a.out[i]), std::fabs(b.out[i]), std::fabs(c.out[i])});
      // exp(lse - m) cannot be better than the spacing of lse.
      const float largest = std::fabs(left.lse[row]);
      const float spacing = std::isinf(largest) ? 0.0f : std::nextafter(largest, kInf) - largest;
      const double error = std::fabs(left.out[i] - right.out[i]) / scale;
      worst = std::max(worst, error - 2.0 * spacing);
      ASSERT_LE(error, 1e-6 + 2.0 * spacing) << "seed " << seed << " element " << i;
    }
    for (std::size_t row = 0; row < left.lse.size(); ++row) {
      if (left.lse[row] == right.lse[row]) continue;
      ASSERT_NEAR(left.lse[row], right.lse[row], 1e-6 * std::max(1.0f, std::fabs(left.lse[row])))
          << "seed " << seed << " row " << row;
    }
  }
  RecordProperty("worst_relative_error", std::to_string(worst));
}

TEST(MergeLaws, IsIdempotentInTheOutputAndAddsLn2) {
  std::mt19937_64 random(3);
  Part part = random_part(random);
  for (float& lse : part.lse) lse = std::isinf(lse) ? 0.5f : lse;
  const Part twice = merged(part, part);
  EXPECT_EQ(twice.out, part.out);
  for (std::size_t row = 0; row < part.lse.size(); ++row) {
    EXPECT_FLOAT_EQ(twice.lse[row], part.lse[row] + std::log(2.0f));
  }
}

}  // namespace
}  // namespace mla::attention
