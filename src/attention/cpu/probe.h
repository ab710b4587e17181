// The peak probe: an Isa's chains of multiply-adds that depend on nothing but themselves.
#pragma once

#include <time.h>

namespace mla::attention::cpu {
namespace {

inline double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// GFLOP/s of chains(n), which does n rounds of flops_per_round and returns a number that depends on
// all of them: the best of slices of the time given, so that a neighbour's slice does not count.
template <class Chains>
double probe_chains(Chains chains, double flops_per_round, double milliseconds) {
  constexpr long kRounds = 20000;
  volatile float sink = 0;
  double best = 0;
  double spent = 0;
  do {
    const double begin = thread_seconds();
    sink = sink + chains(kRounds);
    const double seconds = thread_seconds() - begin;
    spent += seconds;
    if (seconds > 0) {
      const double rate = flops_per_round * kRounds / seconds * 1e-9;
      best = rate > best ? rate : best;
    }
  } while (spent * 1e3 < milliseconds);
  return best;
}

}  // namespace
}  // namespace mla::attention::cpu
