// What is refused, by the argument's name; and what is legal although it looks odd.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <limits>

#include "attention/test_batch.h"

namespace mla::attention {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

BatchSpec two_requests() { return {{2, 3}, {4, 5}, 2, 6, 4}; }

struct Refusal {
  const char* name;
  const char* field;
  const char* text;  // that the message must hold
  std::function<void(TestBatch&)> make;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesTheArgumentAndItsValue) {
  TestBatch batch(two_requests());
  ASSERT_TRUE(validate(batch.args).ok());
  GetParam().make(batch);
  const Status status = validate(batch.args);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().field, GetParam().field) << status.error().message;
  EXPECT_NE(status.error().message.find(GetParam().text), std::string::npos)
      << status.error().message;
}

template <class T>
T* shifted(T* data, std::ptrdiff_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data) +
                              static_cast<std::uintptr_t>(bytes));
}

const std::int64_t kStartsAtOne[] = {1, 2, 5};
const std::int64_t kDecreasing[] = {0, 7, 5};
const std::int32_t kDecreasing32[] = {0, 12, 9};
const std::int64_t kNegative[] = {0, -2, 5};
const std::int64_t kFarApart[] = {0, kMax - 3};
const std::int64_t kSamePlace[] = {0, 8};
const std::int64_t kBelow[] = {kMin, 0};

const Refusal kRefusals[] = {
    {"NegativeRequests", "num_requests", "-1", [](auto& b) { b.args.num_requests = -1; }},
    {"NoHeads", "num_heads", "is 0", [](auto& b) { b.args.num_heads = 0; }},
    {"NegativeQ", "total_q", "-5", [](auto& b) { b.args.total_q = -5; }},
    {"NegativeK", "total_k", "-9", [](auto& b) { b.args.total_k = -9; }},
    {"NoQkDim", "qk_head_dim", "is 0", [](auto& b) { b.args.qk_head_dim = 0; }},
    {"WideQkDim", "qk_head_dim", "at most 2048", [](auto& b) { b.args.qk_head_dim = 2049; }},
    {"NoVDim", "v_head_dim", "is 0", [](auto& b) { b.args.v_head_dim = 0; }},
    {"WideVDim", "v_head_dim", "4096", [](auto& b) { b.args.v_head_dim = 4096; }},
    {"Float8", "dtype", "float8_e4m3", [](auto& b) { b.args.dtype = DType::kFloat8E4M3; }},
    {"BadDtype", "dtype", "invalid", [](auto& b) { b.args.dtype = static_cast<DType>(77); }},
    {"OutDtype", "out_dtype", "bfloat16", [](auto& b) { b.args.out_dtype = DType::kBFloat16; }},
    {"ScaleNan", "scale", "nan", [](auto& b) { b.args.scale = std::nanf(""); }},
    {"ScaleInf", "scale", "inf",
     [](auto& b) { b.args.scale = -std::numeric_limits<float>::infinity(); }},
    {"HeadsOverflow", "num_heads", "overflow", [](auto& b) { b.args.num_heads = kMax / 3; }},
    {"RequestsOverflow", "num_heads", "overflow", [](auto& b) { b.args.num_requests = kMax - 1; }},
    {"TokensOverflow", "num_heads", "overflow", [](auto& b) { b.args.total_k = kMax; }},
    {"CuQNull", "cu_seqlens_q", "null", [](auto& b) { b.args.cu_seqlens_q = {}; }},
    {"CuKNull", "cu_seqlens_k", "null", [](auto& b) { b.args.cu_seqlens_k = {}; }},
    {"CuQStart", "cu_seqlens_q", "[0] is 1",
     [](auto& b) { b.args.cu_seqlens_q = CuSeqlens(kStartsAtOne); }},
    {"CuQDecreases", "cu_seqlens_q", "[2] is 5",
     [](auto& b) { b.args.cu_seqlens_q = CuSeqlens(kDecreasing); }},
    {"CuKDecreases32", "cu_seqlens_k", "[2] is 9",
     [](auto& b) { b.args.cu_seqlens_k = CuSeqlens(kDecreasing32); }},
    {"CuQNegative", "cu_seqlens_q", "-2",
     [](auto& b) { b.args.cu_seqlens_q = CuSeqlens(kNegative); }},
    {"CuQEnd", "cu_seqlens_q", "total_q=6", [](auto& b) { b.args.total_q = 6; }},
    {"CuKEnd", "cu_seqlens_k", "total_k=8", [](auto& b) { b.args.total_k = 8; }},
    {"QNull", "q", "null", [](auto& b) { b.args.q.data = nullptr; }},
    {"KNull", "k", "null", [](auto& b) { b.args.k.data = nullptr; }},
    {"VNull", "v", "null", [](auto& b) { b.args.v.data = nullptr; }},
    {"OutNull", "out", "null", [](auto& b) { b.args.out.data = nullptr; }},
    {"QMisaligned", "q", "multiple of 4",
     [](auto& b) { b.args.q.data = shifted(b.args.q.data, 2); }},
    {"KMisaligned16", "k", "multiple of 2",
     [](auto& b) {
       b.args.dtype = DType::kFloat16;
       b.args.k.data = shifted(b.args.k.data, 1);
     }},
    {"OutMisaligned", "out", "multiple of 4",
     [](auto& b) { b.args.out.data = shifted(b.args.out.data, 1); }},
    {"LseMisaligned", "lse", "multiple of 4", [](auto& b) { b.args.lse = shifted(b.args.lse, 3); }},
    {"QStrideOverflow", "q", "64-bit", [](auto& b) { b.args.q.token_stride = kMax; }},
    {"KStrideOverflow", "k", "64-bit", [](auto& b) { b.args.k.head_stride = kMin; }},
    {"VOffsetOverflow", "v", "64-bit", [](auto& b) { b.args.v.request_offsets = kBelow; }},
    {"OutOffsetOverflow", "out", "64-bit", [](auto& b) { b.args.out.request_offsets = kFarApart; }},
    {"LseStrideOverflow", "lse", "64-bit", [](auto& b) { b.args.lse_head_stride = kMax; }},
    {"OutHeadsOverlap", "out", "overlap", [](auto& b) { b.args.out.head_stride = 3; }},
    {"OutTokensOverlap", "out", "overlap", [](auto& b) { b.args.out.token_stride = 4; }},
    {"OutSharedHeads", "out", "overlap", [](auto& b) { b.args.out.head_stride = 0; }},
    {"OutRequestsOverlap", "out", "overlap",
     [](auto& b) { b.args.out.request_offsets = kSamePlace; }},
    {"LseHeadsOverlap", "lse", "overlap", [](auto& b) { b.args.lse_head_stride = 4; }},
    {"OutIsQ", "out", "with q",
     [](auto& b) {
       b.args.out = {b.q.data(), 12, 6, nullptr};
     }},
    {"OutInV", "out", "with v", [](auto& b) { b.args.out.data = b.v.data(); }},
    {"OutInK", "out", "with k", [](auto& b) { b.args.out.data = b.k.data(); }},
    {"LseInOut", "lse", "with out", [](auto& b) { b.args.lse = b.out.data() + 7; }},
    {"LseInQ", "lse", "with q", [](auto& b) { b.args.lse = b.q.data(); }},
};

INSTANTIATE_TEST_SUITE_P(Arguments, Refused, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Validate, NothingAtAllIsLegal) {
  Args args;
  args.num_heads = 1;
  args.qk_head_dim = args.v_head_dim = 1;
  EXPECT_TRUE(validate(args).ok()) << validate(args).error().message;
  TestBatch no_requests({{}, {}, 1, 1, 1});
  EXPECT_TRUE(validate(no_requests.args).ok());
  TestBatch empty_requests({{0, 0}, {0, 0}, 1, 1, 1});
  empty_requests.args.q.data = empty_requests.args.k.data = empty_requests.args.v.data = nullptr;
  empty_requests.args.out.data = nullptr;
  EXPECT_TRUE(validate(empty_requests.args).ok());
}

TEST(Validate, KeysWithoutQueriesNeedNoOutputs) {
  TestBatch batch({{0}, {5}, 1, 2, 2});
  batch.args.q.data = nullptr;
  batch.args.out.data = nullptr;
  batch.args.lse = nullptr;
  EXPECT_TRUE(validate(batch.args).ok());
  batch.args.k.data = nullptr;
  EXPECT_EQ(validate(batch.args).error().field, "k");
}

TEST(Validate, InputsMayRepeatAndRunBackwards) {
  TestBatch batch(two_requests());
  batch.args.k.head_stride = 0;
  batch.args.v.head_stride = batch.args.v.token_stride = 0;
  batch.args.q.data = batch.q.data() + 4 * 12;
  batch.args.q.token_stride = -12;
  EXPECT_TRUE(validate(batch.args).ok()) << validate(batch.args).error().message;
}

TEST(Validate, AnOutputMayLieBetweenTheRowsOfAnInput) {
  // [N,H,6+4]: k first, out behind it.
  TestBatch batch({{5}, {5}, 2, 6, 4});
  std::vector<float> fused(5 * 2 * 10);
  batch.args.k = {fused.data(), 20, 10, nullptr};
  batch.args.out = {fused.data() + 6, 20, 10, nullptr};
  EXPECT_TRUE(validate(batch.args).ok()) << validate(batch.args).error().message;
  batch.args.out.data = fused.data() + 5;
  EXPECT_EQ(validate(batch.args).error().field, "out");
}

TEST(Validate, RequestsMayInterleave) {
  // [S,B,H,D] with B = 2: the requests' rows alternate.
  TestBatch batch({{3, 3}, {3, 3}, 2, 4, 4});
  const std::int64_t starts[] = {0, 8};
  batch.args.out = {batch.out.data(), 16, 4, starts};
  EXPECT_TRUE(validate(batch.args).ok()) << validate(batch.args).error().message;
  const std::int64_t close[] = {0, 7};
  batch.args.out.request_offsets = close;
  EXPECT_EQ(validate(batch.args).error().field, "out");
}

TEST(Validate, OffsetsOfEmptyRequestsMeanNothing) {
  TestBatch batch({{2, 0}, {3, 0}, 1, 2, 2});
  const std::int64_t wild[] = {0, kMax};
  batch.args.q.request_offsets = batch.args.k.request_offsets = wild;
  batch.args.v.request_offsets = batch.args.out.request_offsets = wild;
  EXPECT_TRUE(validate(batch.args).ok()) << validate(batch.args).error().message;
}

TEST(Validate, EverySignOfScaleAndOffsetIsLegal) {
  TestBatch batch(two_requests());
  const std::int64_t offsets[] = {kMin, kMax};
  batch.args.causal_offsets = offsets;
  for (float scale : {0.0f, -1.0f, 1e38f, -1e-40f}) {
    batch.args.scale = scale;
    EXPECT_TRUE(validate(batch.args).ok()) << scale;
  }
}

TEST(Validate, LseStrideZeroStandsForT) {
  TestBatch batch(two_requests());
  batch.args.lse_head_stride = 5;
  EXPECT_TRUE(validate(batch.args).ok());
  batch.args.lse_head_stride = 0;
  EXPECT_TRUE(validate(batch.args).ok());
}

}  // namespace
}  // namespace mla::attention
