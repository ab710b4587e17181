// A probe that runs on other units than the dtype does shows as attention faster than its peak.
#include "attention/cpu/probe.h"

#include <algorithm>
#include <tuple>

#include "attention/cpu/kernels_check.h"
#include "attention/cpu/row.h"

namespace mla::attention::cpu {
namespace {

constexpr std::int64_t kTokens = 384;
constexpr std::int64_t kQkDim = 192;
constexpr std::int64_t kVDim = 128;

// One causal head of zeros, in GFLOP/s: the best of a few runs.
double attend_gflops(const Implementation& implementation, DType dtype) {
  const std::vector<float> input(static_cast<std::size_t>(kTokens * kQkDim));
  std::vector<float> out(input.size());
  const std::int32_t offsets[] = {0, kTokens};
  Args args;
  args.num_requests = args.num_heads = 1;
  args.total_q = args.total_k = kTokens;
  args.qk_head_dim = kQkDim;
  args.v_head_dim = kVDim;
  args.dtype = args.out_dtype = dtype;
  args.q = args.k = {input.data(), kQkDim, kQkDim, nullptr};
  args.v = {input.data(), kVDim, kVDim, nullptr};
  args.out = {out.data(), kVDim, kVDim, nullptr};
  args.cu_seqlens_q = args.cu_seqlens_k = CuSeqlens(offsets);
  args.scale = 0.1f;
  const RunOptions options{&serial_executor(), 1};
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const double begin = thread_seconds();
    if (!attend(implementation, args, options).ok()) return -1;
    const double pairs = kTokens * (kTokens + 1) / 2.0;
    best = std::max(best, 2 * pairs * (kQkDim + kVDim) / (thread_seconds() - begin) * 1e-9);
  }
  return best;
}

class ProbeTest : public testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(ProbeTest, IsOfTheUnitsTheDtypeRunsOn) {
  const auto [name, dtype] = GetParam();
  const auto implementation = make_implementation(name);
  if (implementation == nullptr || !runs_here(name)) GTEST_SKIP() << "not on this machine";
  constexpr double kMost = 1.05;
  // A machine may slow down for one of the two: only what exceeds the peak each time is wrong.
  double share = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const double before = *probe_peak(*implementation, dtype, 10);
    const double reached = attend_gflops(*implementation, dtype);
    ASSERT_GT(reached, 0);
    share = reached / std::max(before, *probe_peak(*implementation, dtype, 10));
    if (share <= kMost) break;
  }
  EXPECT_LE(share, kMost);
  RecordProperty("share", std::to_string(share));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ProbeTest,
    // Not portable: how fast its loops and its probe are is the compiler's choice.
    testing::Combine(testing::Values("avx2", "avx512", "avx512_bf16", "amx", "neon", "neon_bf16"),
                     testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" + name(std::get<1>(info.param)).data();
    });

}  // namespace
}  // namespace mla::attention::cpu
