// A share is taken sample by sample, against the two probes around it, before the median: clocks
// that drift during the run drop out.
#include "sampling.h"

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace mla::bench {
namespace {

constexpr double kProbeMilliseconds = 8.0;

double clock_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace

Sampler::Sampler(const attention::Implementation& implementation, DType dtype, int threads)
    : implementation_(implementation), dtype_(dtype), threads_(threads) {}

attention::RunOptions Sampler::options() const {
  return {threads_ == 1 ? &serial_executor() : &default_executor(), threads_};
}

const char* Sampler::clock_name() const {
  return thread_cpu_time() ? "thread CPU time" : "wall clock";
}

double Sampler::probe() const {
  std::vector<double> speeds(static_cast<std::size_t>(threads_), 0.0);
  options().executor->for_each_worker(threads_, [&](int worker) {
    const Result<double> speed = attention::probe_peak(implementation_, dtype_, kProbeMilliseconds);
    if (speed) speeds[static_cast<std::size_t>(worker)] = *speed;
  });
  return std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

Result<Sample> Sampler::take(const std::function<Status()>& work) {
  Sample sample;
  sample.probe_before = last_probe_ > 0.0 ? last_probe_ : probe();
  const double wall_start = clock_seconds(CLOCK_MONOTONIC);
  const double cpu_start = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
  const Status status = work();
  const double cpu_seconds = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
  sample.wall_seconds = clock_seconds(CLOCK_MONOTONIC) - wall_start;
  sample.seconds = thread_cpu_time() ? cpu_seconds : sample.wall_seconds;
  if (!status.ok()) return status.error();
  last_probe_ = probe();
  sample.probe_after = last_probe_;
  return sample;
}

Speed speed_of(const std::vector<Sample>& samples, double flops) {
  std::vector<double> gflops;
  std::vector<double> shares;
  std::vector<double> probes;
  for (const Sample& sample : samples) {
    if (!(sample.seconds > 0.0)) continue;
    gflops.push_back(flops / sample.seconds * 1e-9);
    probes.push_back(sample.probe());
    shares.push_back(sample.probe() > 0.0 ? gflops.back() / sample.probe() : 0.0);
  }
  Speed speed;
  speed.samples = static_cast<int>(gflops.size());
  if (gflops.empty()) return speed;
  speed.median_gflops = median(gflops);
  speed.best_gflops = *std::max_element(gflops.begin(), gflops.end());
  speed.median_share = median(shares);
  speed.best_share = *std::max_element(shares.begin(), shares.end());
  speed.probe_gflops = median(probes);
  return speed;
}

double scaling(const std::vector<Sample>& of, const std::vector<Sample>& over) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(of.size(), over.size()); ++i) {
    if (of[i].wall_seconds > 0.0) ratios.push_back(over[i].wall_seconds / of[i].wall_seconds);
  }
  return median(ratios);
}

}  // namespace mla::bench
