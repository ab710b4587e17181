// The cache pool: growth, sharing of full blocks, and that nothing is lost or given out twice.
#include "mla/cache_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace mla::prefill {
namespace {

CachePoolConfig small(std::int64_t num_blocks, std::int64_t block_size) {
  CachePoolConfig config;
  config.num_blocks = num_blocks;
  config.block_size = block_size;
  config.kv_lora_rank = 8;
  config.qk_rope_head_dim = 4;
  return config;
}

TEST(CachePool, GrowsBlockByBlock) {
  CachePool pool = *CachePool::create(small(4, 3));
  const std::int64_t a = pool.open();
  const std::vector<std::int64_t> slots = *pool.extend(a, 4);
  EXPECT_EQ(slots.size(), 4u);
  EXPECT_EQ(pool.free_blocks(), 2);
  const std::vector<std::int32_t> blocks = *pool.blocks(a);
  ASSERT_EQ(blocks.size(), 2u);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(slots[static_cast<std::size_t>(i)],
              blocks[static_cast<std::size_t>(i / 3)] * 3 + i % 3);
  }
  EXPECT_EQ(pool.extend(a, 9).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(*pool.length(a), 4) << "as it was";
  EXPECT_EQ(pool.extend(a, 8)->size(), 8u);
  EXPECT_EQ(pool.free_blocks(), 0);
  ASSERT_TRUE(pool.close(a).ok());
  EXPECT_EQ(pool.free_blocks(), 4);
  EXPECT_EQ(pool.close(a).error().field, "sequence");
}

TEST(CachePool, SharesFullBlocksOnly) {
  CachePool pool = *CachePool::create(small(8, 4));
  const std::int64_t a = pool.open();
  ASSERT_TRUE(pool.extend(a, 10).ok());
  const std::int64_t b = *pool.share(a, 10);
  EXPECT_EQ(*pool.length(b), 8);
  EXPECT_EQ(pool.free_blocks(), 5);
  ASSERT_TRUE(pool.extend(b, 1).ok());
  EXPECT_NE(pool.blocks(a)->back(), pool.blocks(b)->back());
  ASSERT_TRUE(pool.close(a).ok());
  EXPECT_EQ(pool.free_blocks(), 5) << "two of its blocks still belong to b";
  ASSERT_TRUE(pool.close(b).ok());
  EXPECT_EQ(pool.free_blocks(), 8);
}

TEST(CachePool, NoBlockIsLostOrGivenOutTwice) {
  std::mt19937 engine(3);
  CachePool pool = *CachePool::create(small(20, 4));
  std::vector<std::int64_t> open;
  for (int round = 0; round < 2000; ++round) {
    const int action = static_cast<int>(engine() % 4);
    if (open.empty() || action == 0) {
      open.push_back(pool.open());
    } else {
      const std::size_t i = engine() % open.size();
      if (action == 1) {
        (void)pool.extend(open[i], static_cast<std::int64_t>(engine() % 12));
      } else if (action == 2) {
        open.push_back(*pool.share(open[i], *pool.length(open[i])));
      } else {
        ASSERT_TRUE(pool.close(open[i]).ok());
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    std::set<std::int32_t> used;
    std::map<std::int32_t, int> partly;  // blocks with room: owned by one
    for (std::int64_t id : open) {
      const std::vector<std::int32_t> blocks = *pool.blocks(id);
      used.insert(blocks.begin(), blocks.end());
      if (*pool.length(id) % 4 == 0) continue;
      EXPECT_EQ(++partly[blocks.back()], 1);
    }
    ASSERT_EQ(static_cast<std::int64_t>(used.size()) + pool.free_blocks(), 20);
  }
}

TEST(CachePool, BadArgumentsAreNamed) {
  const auto field = [](CachePoolConfig config) {
    const Result<CachePool> pool = CachePool::create(config);
    return pool.ok() ? std::string("ok") : pool.error().field;
  };
  EXPECT_EQ(field(small(-1, 4)), "num_blocks");
  EXPECT_EQ(field(small(4, 0)), "block_size");
  CachePoolConfig config = small(4, 4);
  config.kv_lora_rank = 0;
  EXPECT_EQ(field(config), "kv_lora_rank");
  config = small(4, 4);
  config.dtype = DType::kFloat8E4M3;
  EXPECT_EQ(field(config), "dtype");
  EXPECT_EQ(CachePool::create(small(std::int64_t{1} << 30, 1 << 30)).error().code,
            ErrorCode::kOutOfMemory);
  CachePool pool = *CachePool::create(small(4, 4));
  EXPECT_EQ(pool.extend(0, 1).error().field, "sequence");
  EXPECT_EQ(pool.extend(pool.open(), -1).error().field, "tokens");
  EXPECT_EQ(pool.share(0, 1).error().field, "tokens");
}

}  // namespace
}  // namespace mla::prefill
