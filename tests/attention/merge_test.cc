// The merge by hand and on its edges; its laws are in tests/laws.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "core/half.h"
#include "mla/attention.h"

namespace mla::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

struct Parts {
  std::vector<float> a, b, out, lse_a, lse_b, lse;
  MergeArgs args;

  Parts(std::int64_t tokens, std::int64_t heads, std::int64_t dim)
      : a(static_cast<std::size_t>(tokens * heads * dim)),
        b(a),
        out(a.size(), -77.0f),
        lse_a(static_cast<std::size_t>(tokens * heads)),
        lse_b(lse_a),
        lse(lse_a.size(), -77.0f) {
    args.num_tokens = tokens;
    args.num_heads = heads;
    args.v_head_dim = dim;
    args.dtype = args.out_dtype = DType::kFloat32;
    args.a = {a.data(), heads * dim, dim, nullptr};
    args.b = {b.data(), heads * dim, dim, nullptr};
    args.out = {out.data(), heads * dim, dim, nullptr};
    args.lse_a = lse_a.data();
    args.lse_b = lse_b.data();
    args.lse = lse.data();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
};

// Weights 1/4 and 3/4.
TEST(Merge, WeightsByHand) {
  Parts parts(1, 1, 2);
  parts.a = {4, 8};
  parts.b = {0, -4};
  parts.lse_a = {std::log(2.0f)};
  parts.lse_b = {std::log(6.0f)};
  ASSERT_TRUE(merge(parts.args).ok());
  EXPECT_FLOAT_EQ(parts.out[0], 1.0f);
  EXPECT_FLOAT_EQ(parts.out[1], -1.0f);
  EXPECT_FLOAT_EQ(parts.lse[0], std::log(8.0f));
}

TEST(Merge, EmptySidesOfBothSigns) {
  for (float empty : {-kInf, kInf}) {
    Parts parts(3, 1, 1);
    parts.a = {kNaN, 2, kNaN};  // what an empty side holds is not read
    parts.b = {5, kNaN, kNaN};
    parts.lse_a = {empty, 0.25f, empty};
    parts.lse_b = {-3, empty, empty};
    ASSERT_TRUE(merge(parts.args).ok());
    EXPECT_EQ(parts.out, (std::vector<float>{5, 2, 0}));
    EXPECT_EQ(parts.lse, (std::vector<float>{-3, 0.25f, -kInf}));
  }
}

TEST(Merge, ANanLseStaysVisible) {
  Parts parts(4, 1, 1);
  parts.a = parts.b = {1, 1, 1, 1};
  parts.lse_a = {kNaN, 0, kNaN, kNaN};
  parts.lse_b = {0, kNaN, -kInf, kInf};
  ASSERT_TRUE(merge(parts.args).ok());
  for (int t = 0; t < 4; ++t) {
    EXPECT_TRUE(std::isnan(parts.out[static_cast<std::size_t>(t)])) << t;
    EXPECT_TRUE(std::isnan(parts.lse[static_cast<std::size_t>(t)])) << t;
  }
}

TEST(Merge, FarApartTheGreaterWins) {
  Parts parts(2, 1, 1);
  parts.a = {3, 3};
  parts.b = {9, 9};
  parts.lse_a = {1e4f, -1e4f};
  parts.lse_b = {-1e4f, 1e4f};
  ASSERT_TRUE(merge(parts.args).ok());
  EXPECT_EQ(parts.out, (std::vector<float>{3, 9}));
  EXPECT_EQ(parts.lse, (std::vector<float>{1e4f, 1e4f}));
}

TEST(Merge, RowsLeftOutTakeAAsItIs) {
  Parts parts(3, 2, 1);
  parts.a = {1, 2, 3, 4, 5, 6};
  parts.b.assign(6, kNaN);
  parts.lse_a = {0, kInf, 0, 1, 2, 3};  // [H,T]
  parts.lse_b.assign(6, 0);
  const std::uint8_t merged[] = {0, 0, 1};
  parts.args.merged_tokens = merged;
  ASSERT_TRUE(merge(parts.args).ok());
  EXPECT_EQ(parts.out[0], 1);
  EXPECT_EQ(parts.out[3], 4);
  EXPECT_EQ(parts.lse[1], kInf);
  EXPECT_TRUE(std::isnan(parts.out[4]));
  EXPECT_NEAR(parts.lse[2], std::log(2.0), 1e-6);
}

TEST(Merge, InPlaceIsTheSame) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (bool over_a : {true, false}) {
    Parts parts(9, 3, 70);
    for (auto* tensor : {&parts.a, &parts.b, &parts.lse_a, &parts.lse_b}) {
      for (float& x : *tensor) x = normal(random);
    }
    ASSERT_TRUE(merge(parts.args).ok());
    const std::vector<float> out = parts.out, lse = parts.lse;
    std::vector<float>& place = over_a ? parts.a : parts.b;
    std::vector<float>& lse_place = over_a ? parts.lse_a : parts.lse_b;
    parts.args.out.data = place.data();
    parts.args.lse = lse_place.data();
    ASSERT_TRUE(merge(parts.args).ok());
    EXPECT_EQ(place, out);
    EXPECT_EQ(lse_place, lse);
  }
}

// a [T,H,D] with gaps, b [H,T,D], out [T,H,D]; every lse with a head stride of its own.
TEST(Merge, EveryOperandHasItsStrides) {
  constexpr std::int64_t T = 5, H = 3, D = 4;
  Parts plain(T, H, D);
  std::vector<float> a(T * H * 7, kNaN), b(H * T * D), lse_a(H * 6, kNaN), lse_b(H * 9, kNaN);
  std::vector<float> lse(H * 8, -77.0f);
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t e = 0; e < D; ++e) {
        const auto value = static_cast<float>(100 * t + 10 * h + e);
        plain.a[static_cast<std::size_t>((t * H + h) * D + e)] = value;
        plain.b[static_cast<std::size_t>((t * H + h) * D + e)] = -value;
        a[static_cast<std::size_t>((t * H + h) * 7 + e)] = value;
        b[static_cast<std::size_t>((h * T + t) * D + e)] = -value;
      }
      const auto x = static_cast<float>(h - t);
      plain.lse_a[static_cast<std::size_t>(h * T + t)] =
          lse_a[static_cast<std::size_t>(h * 6 + t)] = x;
      plain.lse_b[static_cast<std::size_t>(h * T + t)] =
          lse_b[static_cast<std::size_t>(h * 9 + t)] = 1;
    }
  }
  ASSERT_TRUE(merge(plain.args).ok());
  MergeArgs args = plain.args;
  std::vector<float> out(plain.out.size());
  args.a = {a.data(), H * 7, 7, nullptr};
  args.b = {b.data(), D, T * D, nullptr};
  args.out.data = out.data();
  args.lse_a = lse_a.data();
  args.lse_b = lse_b.data();
  args.lse = lse.data();
  args.lse_a_head_stride = 6;
  args.lse_b_head_stride = 9;
  args.lse_head_stride = 8;
  ASSERT_TRUE(merge(args).ok());
  EXPECT_EQ(out, plain.out);
  for (std::int64_t h = 0; h < H; ++h) {
    for (std::int64_t t = 0; t < 8; ++t) {
      const float wanted = t < T ? plain.lse[static_cast<std::size_t>(h * T + t)] : -77.0f;
      EXPECT_EQ(lse[static_cast<std::size_t>(h * 8 + t)], wanted);
    }
  }
}

template <class T>
void narrow_types(DType dtype) {
  Parts parts(40, 2, 65);
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<T> a(parts.a.size()), b(a), out(a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    from_float(normal(random), &a[i]);
    from_float(normal(random), &b[i]);
    parts.a[i] = to_float(a[i]);
    parts.b[i] = to_float(b[i]);
  }
  for (float& x : parts.lse_a) x = normal(random);
  for (float& x : parts.lse_b) x = normal(random);
  ASSERT_TRUE(merge(parts.args).ok());
  MergeArgs args = parts.args;
  args.dtype = args.out_dtype = dtype;
  args.a.data = a.data();
  args.b.data = b.data();
  args.out.data = out.data();
  ASSERT_TRUE(merge(args).ok());
  std::vector<float> wide(parts.out.size());
  args.out_dtype = DType::kFloat32;
  args.out.data = wide.data();
  ASSERT_TRUE(merge(args).ok());
  EXPECT_EQ(wide, parts.out) << "the same arithmetic in fp32";
  for (std::size_t i = 0; i < out.size(); ++i) {
    T wanted;
    from_float(parts.out[i], &wanted);
    ASSERT_EQ(out[i].bits, wanted.bits) << i;
  }
}

TEST(Merge, Float16) { narrow_types<Float16>(DType::kFloat16); }
TEST(Merge, BFloat16) { narrow_types<BFloat16>(DType::kBFloat16); }

TEST(Merge, TheSameBitsForAnyNumberOfThreads) {
  Parts parts(501, 4, 128);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (auto* tensor : {&parts.a, &parts.b, &parts.lse_a, &parts.lse_b}) {
    for (float& x : *tensor) x = normal(random);
  }
  ASSERT_TRUE(merge(parts.args, {nullptr, 1}).ok());
  const std::vector<float> out = parts.out;
  for (int threads : {2, 3, 7}) {
    parts.out.assign(parts.out.size(), -77.0f);
    ASSERT_TRUE(merge(parts.args, {nullptr, threads}).ok());
    EXPECT_EQ(parts.out, out) << threads;
  }
}

TEST(Merge, LseOutIsOptionalAndNoTokensAreLegal) {
  Parts parts(2, 1, 1);
  parts.args.lse = nullptr;
  EXPECT_TRUE(merge(parts.args).ok());
  MergeArgs nothing;
  nothing.num_heads = 1;
  nothing.v_head_dim = 1;
  EXPECT_TRUE(merge(nothing).ok()) << merge(nothing).error().message;
}

TEST(Merge, FaultsAreNamedAndNothingIsWritten) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  static const std::int64_t offsets[] = {0};
  const std::vector<std::pair<const char*, std::function<void(Parts&)>>> faults = {
      {"num_tokens", [](Parts& p) { p.args.num_tokens = -1; }},
      {"num_heads", [](Parts& p) { p.args.num_heads = 0; }},
      {"num_heads", [](Parts& p) { p.args.num_heads = kMax; }},
      {"v_head_dim", [](Parts& p) { p.args.v_head_dim = 0; }},
      {"dtype", [](Parts& p) { p.args.dtype = DType::kFloat8E4M3; }},
      {"out_dtype", [](Parts& p) { p.args.out_dtype = DType::kFloat16; }},
      {"a", [](Parts& p) { p.args.a.data = nullptr; }},
      {"b", [](Parts& p) { p.args.b.data = nullptr; }},
      {"a", [](Parts& p) { p.args.a.request_offsets = offsets; }},
      {"out", [](Parts& p) { p.args.out.data = nullptr; }},
      {"lse_a", [](Parts& p) { p.args.lse_a = nullptr; }},
      {"lse_b", [](Parts& p) { p.args.lse_b = nullptr; }},
      {"b", [](Parts& p) { p.args.b.token_stride = kMax; }},
      {"out", [](Parts& p) { p.args.out.token_stride = 1; }},
      {"out", [](Parts& p) { p.args.out.data = p.a.data() + 1; }},
      {"out",
       [](Parts& p) {
         p.args.out.data = p.b.data();
         p.args.out.token_stride = 6;
         p.args.out.head_stride = 3;
         p.args.b.token_stride = 3;
         p.args.b.head_stride = 6;
       }},
      {"lse", [](Parts& p) { p.args.lse = p.lse_a.data() + 1; }},
      {"lse", [](Parts& p) { p.args.lse = p.a.data(); }},
      {"out", [](Parts& p) { p.args.out.data = p.lse_b.data(); }},
      {"lse_a", [](Parts& p) { p.args.lse_a_head_stride = 1; }},
  };
  for (const auto& [field, make] : faults) {
    Parts parts(2, 2, 3);
    make(parts);
    const Status status = merge(parts.args);
    ASSERT_FALSE(status.ok()) << field;
    EXPECT_EQ(status.error().field, field) << status.error().message;
    for (float x : parts.out) EXPECT_EQ(x, -77.0f) << field;
    for (float x : parts.lse) EXPECT_EQ(x, -77.0f) << field;
  }
}

}  // namespace
}  // namespace mla::attention
