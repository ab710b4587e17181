// attend(): foreign traits are made up for, one by one and together.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "attention/test_batch.h"

namespace mla::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Does what its traits say, by the reference; keeps the arguments it got.
class Foreign final : public Implementation {
 public:
  explicit Foreign(const Traits& traits) : traits_(traits) {}
  Traits traits() const override { return traits_; }
  Status attend(const Args& args, const RunOptions&) const override {
    got = args;
    std::vector<double> out(
        static_cast<std::size_t>(args.total_q * args.num_heads * args.v_head_dim));
    std::vector<double> lse(static_cast<std::size_t>(args.total_q * args.num_heads));
    if (Status s = reference(args, out.data(), lse.data()); !s) return s;
    for (std::int64_t t = 0; t < args.total_q; ++t) {
      for (std::int64_t h = 0; h < args.num_heads; ++h) write(args, t, h, out, lse);
    }
    return {};
  }
  mutable Args got;

 private:
  void write(const Args& args, std::int64_t t, std::int64_t h, const std::vector<double>& out,
             const std::vector<double>& lse) const {
    const double value = lse[static_cast<std::size_t>(h * args.total_q + t)];
    const bool empty = std::isinf(value);
    auto* row =
        static_cast<float*>(args.out.data) + t * args.out.token_stride + h * args.out.head_stride;
    for (std::int64_t e = 0; e < args.v_head_dim; ++e) {
      const auto at = static_cast<std::size_t>((t * args.num_heads + h) * args.v_head_dim + e);
      row[e] =
          empty && std::isnan(traits_.empty_row_lse) ? std::nanf("") : static_cast<float>(out[at]);
    }
    if (args.lse == nullptr) return;
    const double base = traits_.lse_base == LseBase::k2 ? std::log(2.0) : 1.0;
    const std::int64_t stride = args.lse_head_stride != 0 ? args.lse_head_stride : args.total_q;
    const std::int64_t at =
        traits_.lse_layout == LseLayout::kHeadsTokens ? h * stride + t : t * args.num_heads + h;
    args.lse[at] = empty ? traits_.empty_row_lse : static_cast<float>(value / base);
  }

  Traits traits_;
};

struct TraitCase {
  const char* name;
  Traits traits;
};

void PrintTo(const TraitCase& c, std::ostream* out) { *out << c.name; }

Traits with(const std::function<void(Traits&)>& change) {
  Traits traits;
  change(traits);
  return traits;
}

class ForeignTraits : public testing::TestWithParam<TraitCase> {};

// Both widths orders, a strided v with poison around it, empty rows, and a strided lse.
TEST_P(ForeignTraits, AreInvisibleFromOutside) {
  for (const auto& [dq, dv] : {std::pair{6, 4}, std::pair{3, 5}, std::pair{4, 4}}) {
    TestBatch batch({{3, 0, 4}, {2, 2, 5}, 2, dq, dv});
    batch.fill(17);
    const std::int64_t pitch = dv + 3;
    std::vector<float> projection(static_cast<std::size_t>(9 * 2 * pitch), std::nanf(""));
    for (std::int64_t row = 0; row < 18; ++row) {
      std::memcpy(&projection[static_cast<std::size_t>(row * pitch + 3)],
                  &batch.v[static_cast<std::size_t>(row * dv)],
                  static_cast<std::size_t>(dv) * sizeof(float));
    }
    batch.args.v = {projection.data() + 3, 2 * pitch, pitch, nullptr};
    std::vector<float> lse(2 * 9, -77.0f);
    batch.args.lse = lse.data();
    batch.args.lse_head_stride = 9;
    const auto expected = batch.reference();
    const Foreign foreign(GetParam().traits);
    const Status status = attend(foreign, batch.args);
    ASSERT_TRUE(status.ok()) << status.error().message;
    for (std::size_t i = 0; i < batch.out.size(); ++i) {
      ASSERT_NEAR(batch.out[i], expected.out[i], 1e-6) << i;
    }
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t t = 0; t < 9; ++t) {
        const float got = lse[static_cast<std::size_t>(h * 9 + t)];
        if (t >= 7) {
          EXPECT_EQ(got, -77.0f) << "the gap between heads";
        } else if (std::isinf(expected.lse[static_cast<std::size_t>(h * 7 + t)])) {
          EXPECT_EQ(got, -kInf);
        } else {
          EXPECT_NEAR(got, expected.lse[static_cast<std::size_t>(h * 7 + t)], 1e-6);
        }
      }
    }
  }
}

TEST_P(ForeignTraits, TheImplementationGetsWhatItAskedFor) {
  TestBatch batch({{5}, {7}, 2, 6, 3});
  batch.fill(23);
  const Foreign foreign(GetParam().traits);
  ASSERT_TRUE(attend(foreign, batch.args).ok());
  const Traits& traits = GetParam().traits;
  const Args& got = foreign.got;
  if (traits.pads_v) {
    EXPECT_EQ(got.v_head_dim, got.qk_head_dim);
  }
  if (traits.needs_contiguous_v) {
    EXPECT_EQ(got.v.head_stride, got.v_head_dim);
    EXPECT_EQ(got.v.token_stride, 2 * got.v_head_dim);
    EXPECT_EQ(got.v.request_offsets, nullptr);
  }
  if (traits.alignment > 0) {
    const auto check = [&](const void* data, std::int64_t token_stride, std::int64_t head_stride) {
      EXPECT_EQ(
          reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(traits.alignment),
          0u);
      if (traits.needs_contiguous_v) return;
      EXPECT_EQ(token_stride * 4 % traits.alignment, 0);
      EXPECT_EQ(head_stride * 4 % traits.alignment, 0);
    };
    check(got.q.data, got.q.token_stride, got.q.head_stride);
    check(got.k.data, got.k.token_stride, got.k.head_stride);
    check(got.v.data, got.v.token_stride, got.v.head_stride);
    check(got.out.data, got.out.token_stride, got.out.head_stride);
  }
}

const TraitCase kTraits[] = {
    {"None", {}},
    {"TokensHeads", with([](Traits& t) { t.lse_layout = LseLayout::kTokensHeads; })},
    {"Base2", with([](Traits& t) { t.lse_base = LseBase::k2; })},
    {"EmptyInf", with([](Traits& t) { t.empty_row_lse = kInf; })},
    {"EmptyNan", with([](Traits& t) { t.empty_row_lse = std::nanf(""); })},
    {"EmptySentinel", with([](Traits& t) { t.empty_row_lse = -1e30f; })},
    {"ContiguousV", with([](Traits& t) { t.needs_contiguous_v = true; })},
    {"PadsV", with([](Traits& t) { t.pads_v = true; })},
    {"Aligned", with([](Traits& t) { t.alignment = 64; })},
    {"OddAlignment", with([](Traits& t) { t.alignment = 24; })},
    {"Everything", with([](Traits& t) {
       t = {LseLayout::kTokensHeads, LseBase::k2, std::nanf(""), true, true, 32, 1000};
     })},
};

INSTANTIATE_TEST_SUITE_P(Traits, ForeignTraits, testing::ValuesIn(kTraits),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Attend, GapsOfOutStayAsTheyAreThroughACopy) {
  TestBatch batch({{3}, {3}, 2, 4, 2});
  batch.fill(5);
  std::vector<float> wide(3 * 2 * 5, -77.0f);
  batch.args.out = {wide.data() + 1, 10, 5, nullptr};
  const Foreign foreign(with([](Traits& t) { t.pads_v = true; }));
  ASSERT_TRUE(attend(foreign, batch.args).ok());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(wide[i] == -77.0f, i % 5 == 0 || i % 5 > 2) << i;
  }
}

TEST(Attend, TooManyTokensAreUnsupported) {
  TestBatch batch({{3}, {9}, 1, 1, 1});
  const Foreign foreign(with([](Traits& t) { t.max_tokens = 8; }));
  const Status status = attend(foreign, batch.args);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(status.error().field, "total_k");
  EXPECT_NE(status.error().message.find("at most 8"), std::string::npos);
  EXPECT_EQ(batch.out[0], -77.0f);
}

TEST(Attend, AnImplementationsErrorComesThrough) {
  class Broken final : public Implementation {
    Status attend(const Args&, const RunOptions&) const override {
      return Error{ErrorCode::kBackendFailed, "", "no power"};
    }
  };
  TestBatch batch({{1}, {1}, 1, 1, 1});
  EXPECT_EQ(attend(Broken(), batch.args).error().code, ErrorCode::kBackendFailed);
}

TEST(Attend, NoQueriesAskNothingOfTheImplementation) {
  TestBatch batch({{0}, {4}, 1, 1, 1});
  const Foreign foreign(with([](Traits& t) { t.max_tokens = 1; }));
  EXPECT_TRUE(attend(foreign, batch.args).ok());
  EXPECT_EQ(foreign.got.num_heads, 0);
}

}  // namespace
}  // namespace mla::attention
