// Overlap of strided blocks against marking every byte.
#include "attention/footprint.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

namespace mla::attention {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

RowBlock block(std::int64_t offset, std::int64_t tokens, std::int64_t token_stride,
               std::int64_t heads, std::int64_t head_stride, std::int64_t width) {
  const auto* middle = reinterpret_cast<const void*>(std::uintptr_t{1} << 20);
  const auto made =
      make_block({middle, offset, tokens, token_stride, heads, head_stride, width, 2});
  EXPECT_TRUE(made.has_value());
  return *made;
}

// The bytes of every row, each as often as rows cover it.
std::multiset<std::int64_t> bytes_of(const RowBlock& b) {
  std::multiset<std::int64_t> bytes;
  for (std::int64_t t = 0; t < b.tokens; ++t) {
    for (std::int64_t h = 0; h < b.heads; ++h) {
      for (std::int64_t e = 0; e < b.width; ++e) {
        bytes.insert(b.base + t * b.token_stride + h * b.head_stride + e);
      }
    }
  }
  return bytes;
}

bool repeats(const std::multiset<std::int64_t>& bytes) {
  return std::set<std::int64_t>(bytes.begin(), bytes.end()).size() != bytes.size();
}

class RandomBlocks {
 public:
  explicit RandomBlocks(std::uint64_t seed) : random_(seed) {}
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  RowBlock next() {
    return block(in(-20, 20), in(1, 5), in(-12, 24), in(1, 5), in(-12, 24), in(1, 6));
  }
  // The strides of another block.
  RowBlock like(const RowBlock& b) {
    return block(in(-40, 40), in(1, 5), b.token_stride / 2, in(1, 5), b.head_stride / 2, in(1, 6));
  }

 private:
  std::mt19937_64 random_;
};

TEST(Footprint, ReachIsThatOfTheRows) {
  RandomBlocks random(1);
  for (int round = 0; round < 2000; ++round) {
    const RowBlock b = random.next();
    const auto bytes = bytes_of(b);
    ASSERT_EQ(b.low, *bytes.begin());
    ASSERT_EQ(b.high, *bytes.rbegin() + 1);
  }
}

TEST(Footprint, OverlapWithItselfIsExact) {
  RandomBlocks random(2);
  int overlapping = 0;
  for (int round = 0; round < 20000; ++round) {
    const RowBlock b = random.next();
    const bool expected = repeats(bytes_of(b));
    overlapping += expected ? 1 : 0;
    ASSERT_EQ(overlaps_itself(b), expected)
        << b.tokens << " x " << b.token_stride << ", " << b.heads << " x " << b.head_stride
        << ", width " << b.width;
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_LT(overlapping, 19000);
}

TEST(Footprint, OverlapOfTwoIsExact) {
  RandomBlocks random(3);
  int overlapping = 0;
  for (int round = 0; round < 20000; ++round) {
    const RowBlock a = random.next();
    const RowBlock b = round % 2 == 0 ? random.next() : random.like(a);
    const auto bytes = bytes_of(a);
    bool expected = false;
    for (std::int64_t byte : bytes_of(b)) expected = expected || bytes.contains(byte);
    overlapping += expected ? 1 : 0;
    ASSERT_EQ(overlap(a, b), expected) << "round " << round;
    ASSERT_EQ(overlap(b, a), expected) << "round " << round;
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_LT(overlapping, 19000);
}

TEST(Footprint, SetsOfBlocksAreExact) {
  RandomBlocks random(4);
  for (int round = 0; round < 5000; ++round) {
    Footprint a, b;
    for (std::int64_t i = random.in(0, 4); i > 0; --i) {
      a.push_back(block(random.in(-200, 200), 2, 8, 2, 4, 3));
    }
    for (std::int64_t i = random.in(0, 4); i > 0; --i) {
      b.push_back(block(random.in(-200, 200), 2, 9, 2, 4, 2));
    }
    std::multiset<std::int64_t> bytes, others;
    for (const RowBlock& x : a) bytes.merge(bytes_of(x));
    for (const RowBlock& x : b) others.merge(bytes_of(x));
    bool shared = false;
    for (std::int64_t byte : others) shared = shared || bytes.contains(byte);
    ASSERT_EQ(overlaps_itself(a), repeats(bytes)) << "round " << round;
    ASSERT_EQ(overlap(a, b), shared) << "round " << round;
  }
}

TEST(Footprint, AddressesBeyond64BitsAreNoBlock) {
  const int here = 0;
  const auto made = [&](std::int64_t offset, std::int64_t tokens, std::int64_t stride) {
    return make_block({&here, offset, tokens, stride, 1, 0, 4, 4}).has_value();
  };
  EXPECT_TRUE(made(0, 1, kMax)) << "the stride of a single row is free";
  EXPECT_FALSE(made(0, 2, kMax));
  EXPECT_FALSE(made(0, kMax, kMax));
  EXPECT_FALSE(made(0, kMax, -kMax));
  EXPECT_FALSE(made(kMax, 1, 0));
  EXPECT_FALSE(made(-kMax, 1, 0));
  EXPECT_FALSE(made(kMax / 4, 1, 0));
}

TEST(Footprint, LongTensorsAreQuickToCompare) {
  // 2^40 tokens that interleave with another tensor of the same strides.
  const std::int64_t tokens = std::int64_t{1} << 40;
  const RowBlock k = block(0, tokens, 64, 4, 16, 8);
  const RowBlock v = block(8, tokens, 64, 4, 16, 8);
  EXPECT_FALSE(overlaps_itself(k));
  EXPECT_FALSE(overlap(k, v));
  EXPECT_TRUE(overlap(k, block(7, tokens, 64, 4, 16, 8)));
}

}  // namespace
}  // namespace mla::attention
