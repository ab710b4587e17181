// The context-chunk planner: the vectors of the contract, and what holds for any lengths.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "mla/prefill.h"

namespace mla::prefill {
namespace {

using Lens = std::vector<std::int64_t>;
using Chunks = std::vector<ContextChunk>;

Chunks plan(const Lens& lens, std::int64_t budget = 1024, std::int64_t alignment = 16) {
  Result<Chunks> chunks = plan_context_chunks(lens, budget, alignment);
  EXPECT_TRUE(chunks.ok());
  return chunks.ok() ? *chunks : Chunks{};
}

TEST(ContextChunks, VectorsOfTheContract) {
  EXPECT_EQ(plan({768, 512, 512}),
            (Chunks{{{0, 0, 768}, {1, 0, 256}}, {{1, 256, 512}, {2, 0, 512}}}));
  EXPECT_EQ(plan({2048, 32, 32}),
            (Chunks{{{0, 0, 1024}}, {{0, 1024, 2048}}, {{1, 0, 32}, {2, 0, 32}}}));
  EXPECT_EQ(plan({64, 0, 64, 0}), (Chunks{{{0, 0, 64}}, {{2, 0, 64}}}));
  EXPECT_EQ(plan({0, 0}), Chunks{});
  EXPECT_EQ(plan({}), Chunks{});
  EXPECT_EQ(plan({1024, 1024, 1024}), (Chunks{{{0, 0, 1024}}, {{1, 0, 1024}}, {{2, 0, 1024}}}));
  EXPECT_EQ(plan({37, 1000, 5}), (Chunks{{{0, 0, 37}, {1, 0, 976}}, {{1, 976, 1000}, {2, 0, 5}}}));
  EXPECT_EQ(plan({1}), (Chunks{{{0, 0, 1}}}));
  EXPECT_EQ(plan({2048, 320}), (Chunks{{{0, 0, 1024}}, {{0, 1024, 2048}}, {{1, 0, 320}}}));
}

void expect_laws(const Lens& lens, std::int64_t budget, std::int64_t alignment) {
  Lens reached(lens.size(), 0);
  std::int64_t last_request = -1;
  for (const ContextChunk& chunk : plan(lens, budget, alignment)) {
    ASSERT_FALSE(chunk.empty());
    std::int64_t rows = 0;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const ChunkPart& part = chunk[i];
      std::int64_t& done = reached[static_cast<std::size_t>(part.request)];
      EXPECT_EQ(part.begin, done) << "every row once, in order";
      EXPECT_LT(part.begin, part.end);
      done = part.end;
      rows += part.end - part.begin;
      if (i > 0) {
        EXPECT_EQ(part.request, chunk[i - 1].request + 1) << "contiguous requests";
        EXPECT_FALSE(part.continuation()) << "only the first continues";
      } else {
        EXPECT_EQ(part.continuation(), part.request == last_request);
      }
      if (done != lens[static_cast<std::size_t>(part.request)]) {
        EXPECT_EQ(done % alignment, 0);
        EXPECT_EQ(i, chunk.size() - 1) << "a cut closes the chunk";
      }
      last_request = part.request;
    }
    EXPECT_LE(rows, budget);
  }
  EXPECT_EQ(reached, lens);
}

TEST(ContextChunks, EveryRowOnceAndNoChunkOverTheBudget) {
  Lens steps(17, 16);
  steps[0] = 960;
  for (const Lens& lens :
       {Lens{768, 512, 512}, Lens{2048, 32, 32}, Lens{64, 0, 64, 0}, steps, Lens{2048, 320},
        Lens{1024, 1024, 1024}, Lens{37, 1000, 5}, Lens{1}, Lens{0, 0, 5000, 0, 1}}) {
    expect_laws(lens, 1024, 16);
  }
  std::mt19937 engine(7);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t alignment = draw(1, 20);
    const std::int64_t budget = alignment + draw(0, 100);
    Lens lens(static_cast<std::size_t>(draw(0, 9)));
    for (std::int64_t& length : lens) length = draw(0, 3) == 0 ? 0 : draw(0, 300);
    expect_laws(lens, budget, alignment);
  }
}

TEST(ContextChunks, BadArgumentsAreNamed) {
  const auto field = [](const Lens& lens, std::int64_t budget, std::int64_t alignment) {
    const Result<Chunks> chunks = plan_context_chunks(lens, budget, alignment);
    return chunks.ok() ? std::string("ok") : chunks.error().field;
  };
  EXPECT_EQ(field({1}, 16, 0), "alignment");
  EXPECT_EQ(field({1}, 16, -3), "alignment");
  EXPECT_EQ(field({1}, 15, 16), "row_budget");
  EXPECT_EQ(field({1, -1}, 16, 16), "context_lens");
}

}  // namespace
}  // namespace mla::prefill
