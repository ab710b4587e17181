// Timing that means something on a shared machine: every sample lies between two runs of the row's
// own peak probe and is given as a share of them. One thread is timed by its CPU time, which
// neighbours do not take from; several by the wall clock, with as many probes running at once.
// Where one thread is compared with several, both are timed by the wall clock in turns.
#pragma once

#include <functional>
#include <vector>

#include "mla/attention.h"

namespace mla::bench {

struct Sample {
  double seconds = 0.0;  // by the sampler's clock
  double wall_seconds = 0.0;
  double probe_before = 0.0;  // GFLOP/s of all threads together
  double probe_after = 0.0;

  double probe() const { return 0.5 * (probe_before + probe_after); }
};

class Sampler {
 public:
  // threads >= 1. The row is what is probed; a row without a probe is timed all the same and its
  // probes are 0.
  Sampler(const attention::Implementation& implementation, DType dtype, int threads);

  attention::RunOptions options() const;  // for the work to be timed
  bool thread_cpu_time() const { return threads_ == 1; }
  const char* clock_name() const;  // "thread CPU time", "wall clock"

  // Probe, work, probe. The probe after one sample is the probe before the next.
  Result<Sample> take(const std::function<Status()>& work);
  // GFLOP/s of all threads together; 0 where the row has no probe.
  double probe() const;

 private:
  const attention::Implementation& implementation_;
  DType dtype_;
  int threads_;
  double last_probe_ = 0.0;
};

// Of samples of the same work; flops of one run.
struct Speed {
  int samples = 0;
  double median_gflops = 0.0;
  double best_gflops = 0.0;
  double median_share = 0.0;  // of the probe; 0: no probe
  double best_share = 0.0;
  double probe_gflops = 0.0;  // median
};
Speed speed_of(const std::vector<Sample>& samples, double flops);

// How many times as fast the first is: the median of the ratios of wall times, turn by turn.
double scaling(const std::vector<Sample>& of, const std::vector<Sample>& over);

}  // namespace mla::bench
