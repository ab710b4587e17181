// Time of a selection: cached, uncached, through the text face. Not a test; run it on a quiet core:
//   taskset -c 0 build/release/bin/selection_bench
#include <benchmark/benchmark.h>

#include "mla/selector.h"

namespace {

mla::Problem deepseek() { return mla::find_named_model("deepseek-v3")->config.problem(); }

mla::Platform blackwell() {
  mla::Platform platform;
  platform.kind = mla::DeviceKind::kCuda;
  platform.capability = mla::Capability{10, 0};
  platform.simulated = true;
  return platform;
}

void select_cached(benchmark::State& state, const mla::Platform& platform) {
  const mla::Problem problem = deepseek();
  const mla::Policy policy;
  for (auto _ : state) {
    benchmark::DoNotOptimize(mla::select(problem, platform, policy));
  }
}

void select_uncached(benchmark::State& state, const mla::Platform& platform,
                     const mla::Policy& policy) {
  const mla::Problem problem = deepseek();
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        mla::select_uncached(problem, platform, policy, mla::default_registry()));
  }
}

void select_json(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(mla::select_json(
        R"({"platform": "cuda", "capability": [10, 0], "dtype": "bf16", "dims": [128, 64, 128]})"));
  }
}

mla::Policy refused_everywhere() {
  mla::Policy policy;
  policy.backend = "ROCM_AITER_FA";
  policy.fallback = true;
  policy.not_installed = {"CPU", "ZEN_CPU"};
  return policy;
}

BENCHMARK_CAPTURE(select_cached, cuda, blackwell());
BENCHMARK_CAPTURE(select_cached, this_cpu, mla::this_cpu_platform());
BENCHMARK_CAPTURE(select_cached, this_cpu, mla::this_cpu_platform())->Threads(2);
BENCHMARK_CAPTURE(select_uncached, cuda, blackwell(), mla::Policy{});
BENCHMARK_CAPTURE(select_uncached, this_cpu, mla::this_cpu_platform(), mla::Policy{});
BENCHMARK_CAPTURE(select_uncached, this_cpu_every_row_refused, mla::this_cpu_platform(),
                  refused_everywhere());
BENCHMARK(select_json);

}  // namespace

BENCHMARK_MAIN();
