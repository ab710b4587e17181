// What the figures of `mla bench` say beside each other: threads, uneven requests, many heads.
#pragma once

#include <string>
#include <vector>

#include "sampling.h"

namespace mla::bench {

struct TimedFigure {
  std::string row;
  std::string shape;
  int threads = 1;
  Speed speed;
  double over_one_thread = 0.0;  // 0: one thread was not timed beside it
};

struct SpeedRatio {
  std::string row;
  std::string what;  // "prompt-2048, 2 threads over 1"
  // Of threads, of wall times taken in turns; else of speeds, each as a share of the probe around
  // it, so that clocks drop out.
  double ratio = 0.0;
};

// Those that both sides of were timed, in the order of the figures.
std::vector<SpeedRatio> compare(const std::vector<TimedFigure>& figures);

}  // namespace mla::bench
