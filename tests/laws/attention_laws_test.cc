// What attention is, as laws, for every row that this machine can run: any chunking of the keys and
// any split of the queries is the whole, order is irrelevant, values enter linearly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "attention/test_batch.h"
#include "conformance/conformance.h"

namespace mla::attention {
namespace {

using conformance::Candidate;

std::vector<Candidate> runnable() {
  std::vector<Candidate> rows = conformance::candidates(default_registry(), this_cpu_platform());
  std::erase_if(rows, [](const Candidate& row) { return !row.cannot_run.empty(); });
  return rows;
}

class AttentionLaws : public testing::TestWithParam<Candidate> {
 protected:
  void attend(const Args& args) const {
    const Status status = attention::attend(*GetParam().subject.implementation, args);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
};

std::string row_name(const testing::TestParamInfo<Candidate>& info) {
  std::string name = info.param.subject.name;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

constexpr std::uint64_t kSeeds = 12;
constexpr double kTolerance = 2e-5;  // of docs/numerics.md, for the size of values here

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted,
                 std::uint64_t seed) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i]) continue;
    ASSERT_NEAR(got[i], wanted[i], kTolerance * (1 + std::fabs(wanted[i])))
        << "seed " << seed << " element " << i;
  }
}

BatchSpec random_spec(std::mt19937_64& random) {
  const auto in = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  BatchSpec spec;
  for (std::int64_t r = in(1, 4); r > 0; --r) {
    spec.q_lengths.push_back(in(0, 90));
    spec.k_lengths.push_back(in(0, 200));
  }
  spec.heads = in(1, 3);
  spec.qk_dim = in(1, 70);
  spec.v_dim = in(1, 70);
  return spec;
}

void start(TestBatch& batch, std::uint64_t seed) {
  batch.fill(seed);
  batch.args.scale = 1.0f / std::sqrt(static_cast<float>(batch.args.qk_head_dim));
}

// One request's keys cut at any places into chunks, attended one by one, merged in any order.
TEST_P(AttentionLaws, ChunkedIsOneShot) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    BatchSpec spec = random_spec(random);
    spec.q_lengths.resize(1);
    spec.k_lengths.resize(1);
    TestBatch batch(spec);
    start(batch, seed);
    batch.args.causal = seed % 3 != 0;
    attend(batch.args);
    const std::int64_t m = spec.q_lengths[0], n = spec.k_lengths[0];

    std::vector<std::int64_t> cuts{0, n};
    for (std::uint64_t c = random() % 5; c > 0; --c) {
      cuts.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n + 1)));
    }
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::size_t> order(cuts.size() - 1);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);

    std::vector<float> out(batch.out.size(), 0.0f), part(batch.out.size());
    std::vector<float> lse(batch.lse.size(), -INFINITY), part_lse(batch.lse.size());
    for (std::size_t chunk : order) {
      Args args = batch.args;
      const std::int64_t cu_k[] = {0, cuts[chunk + 1] - cuts[chunk]};
      const std::int64_t offset = n - m - cuts[chunk];
      args.cu_seqlens_k = CuSeqlens(cu_k);
      args.total_k = cu_k[1];
      args.causal_offsets = &offset;
      args.k.data = batch.k.data() + cuts[chunk] * args.k.token_stride;
      args.v.data = batch.v.data() + cuts[chunk] * args.v.token_stride;
      args.out.data = part.data();
      args.lse = part_lse.data();
      attend(args);
      MergeArgs merge_args;
      merge_args.num_tokens = m;
      merge_args.num_heads = spec.heads;
      merge_args.v_head_dim = spec.v_dim;
      merge_args.dtype = merge_args.out_dtype = DType::kFloat32;
      merge_args.out = {out.data(), spec.heads * spec.v_dim, spec.v_dim, nullptr};
      merge_args.a = {out.data(), spec.heads * spec.v_dim, spec.v_dim, nullptr};
      merge_args.b = {part.data(), spec.heads * spec.v_dim, spec.v_dim, nullptr};
      merge_args.lse_a = merge_args.lse = lse.data();
      merge_args.lse_b = part_lse.data();
      const Status status = merge(merge_args);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
    expect_near(out, batch.out, seed);
    expect_near(lse, batch.lse, seed);
  }
}

// Queries [0, cut) and [cut, m) as two requests over the same keys.
TEST_P(AttentionLaws, SplitQueriesAreTheWhole) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    BatchSpec spec = random_spec(random);
    spec.q_lengths.resize(1);
    spec.k_lengths.resize(1);
    TestBatch batch(spec);
    start(batch, seed);
    attend(batch.args);
    const std::vector<float> out = batch.out, lse = batch.lse;
    const std::int64_t m = spec.q_lengths[0], n = spec.k_lengths[0];
    const auto cut = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(m + 1));
    const std::int64_t cu_q[] = {0, cut, m};
    const std::int64_t cu_k[] = {0, n, 2 * n};
    const std::int64_t starts[] = {0, 0};
    const std::int64_t offsets[] = {n - m, n - m + cut};
    Args args = batch.args;
    args.num_requests = 2;
    args.total_k = 2 * n;
    args.cu_seqlens_q = CuSeqlens(cu_q);
    args.cu_seqlens_k = CuSeqlens(cu_k);
    args.k.request_offsets = args.v.request_offsets = starts;
    args.causal_offsets = offsets;
    attend(args);
    expect_near(batch.out, out, seed);
    expect_near(batch.lse, lse, seed);
  }
}

// Requests in another order give each the same bits.
TEST_P(AttentionLaws, RequestsDoNotSeeEachOther) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    const BatchSpec spec = random_spec(random);
    TestBatch batch(spec);
    start(batch, seed);
    attend(batch.args);
    const std::size_t requests = spec.q_lengths.size();
    std::vector<std::size_t> order(requests);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);

    std::vector<std::int64_t> cu_q{0}, cu_k{0}, q_starts, k_starts, v_starts, out_starts;
    for (std::size_t r : order) {
      cu_q.push_back(cu_q.back() + spec.q_lengths[r]);
      cu_k.push_back(cu_k.back() + spec.k_lengths[r]);
      q_starts.push_back(batch.cu_q[r] * batch.args.q.token_stride);
      k_starts.push_back(batch.cu_k[r] * batch.args.k.token_stride);
      v_starts.push_back(batch.cu_k[r] * batch.args.v.token_stride);
      out_starts.push_back(batch.cu_q[r] * batch.args.out.token_stride);
    }
    std::vector<float> out(batch.out.size());
    Args args = batch.args;
    args.cu_seqlens_q = CuSeqlens(cu_q.data());
    args.cu_seqlens_k = CuSeqlens(cu_k.data());
    args.q.request_offsets = q_starts.data();
    args.k.request_offsets = k_starts.data();
    args.v.request_offsets = v_starts.data();
    args.out.request_offsets = out_starts.data();
    args.out.data = out.data();
    attend(args);
    ASSERT_EQ(out, batch.out) << "seed " << seed;
  }
}

TEST_P(AttentionLaws, WithoutAMaskKeysHaveNoOrder) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    BatchSpec spec = random_spec(random);
    spec.q_lengths.resize(1);
    spec.k_lengths.resize(1);
    TestBatch batch(spec);
    start(batch, seed);
    batch.args.causal = false;
    attend(batch.args);
    const std::vector<float> out = batch.out, lse = batch.lse;
    // Rows the other way round.
    const std::int64_t last = std::max<std::int64_t>(spec.k_lengths[0] - 1, 0);
    for (ConstRows* rows : {&batch.args.k, &batch.args.v}) {
      rows->data = static_cast<const float*>(rows->data) + last * rows->token_stride;
      rows->token_stride = -rows->token_stride;
    }
    attend(batch.args);
    expect_near(batch.out, out, seed);
    expect_near(batch.lse, lse, seed);
  }
}

// attend(v) + attend(w) = attend(v + w), with sums that float holds exactly.
TEST_P(AttentionLaws, ValuesEnterLinearly) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    TestBatch batch(random_spec(random));
    start(batch, seed);
    std::vector<float> v(batch.v.size()), w(batch.v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = static_cast<float>(random() % 65) / 32 - 1;
      w[i] = static_cast<float>(random() % 65) / 32 - 1;
    }
    std::vector<float> sum(batch.out.size(), 0.0f);
    for (const std::vector<float>* values : {&v, &w}) {
      batch.v = *values;
      attend(batch.args);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += batch.out[i];
    }
    for (std::size_t i = 0; i < v.size(); ++i) batch.v[i] = v[i] + w[i];
    attend(batch.args);
    expect_near(sum, batch.out, seed);
  }
}

// A vector added to every key moves all scores of a query alike: out stays.
TEST_P(AttentionLaws, ShiftedKeysGiveTheSameOutput) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(seed);
    TestBatch batch(random_spec(random));
    start(batch, seed);
    // Eighths, so that the shift itself does not round.
    for (float& x : batch.k) x = std::round(x * 8) / 8;
    attend(batch.args);
    const std::vector<float> out = batch.out;
    const auto dim = static_cast<std::size_t>(batch.args.qk_head_dim);
    for (std::size_t i = 0; i < batch.k.size(); ++i) {
      batch.k[i] += static_cast<float>(i % dim % 5) / 8;
    }
    attend(batch.args);
    expect_near(batch.out, out, seed);
  }
}

// Free means any 64 bits: nothing may be computed from the strides and offsets of rows that are
// not.
TEST_P(AttentionLaws, RowsThatAreNotHaveAnyStrides) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> offsets{kMax, -kMax, kMax};
  TestBatch batch({{3, 0, 2}, {0, 0, 0}, 3, 5, 4});
  start(batch, 1);
  for (ConstRows* rows : {&batch.args.k, &batch.args.v}) *rows = {nullptr, kMax, -kMax, nullptr};
  attend(batch.args);
  EXPECT_EQ(batch.out, std::vector<float>(batch.out.size(), 0.0f));
  EXPECT_EQ(batch.lse,
            std::vector<float>(batch.lse.size(), -std::numeric_limits<float>::infinity()));
  batch.args.k.request_offsets = batch.args.v.request_offsets = offsets.data();
  attend(batch.args);
  EXPECT_EQ(batch.out, std::vector<float>(batch.out.size(), 0.0f));
}

INSTANTIATE_TEST_SUITE_P(Rows, AttentionLaws, testing::ValuesIn(runnable()), row_name);

}  // namespace
}  // namespace mla::attention
