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
};

struct SpeedRatio {
  std::string row;
  std::string what;    // "prompt-2048, 2 threads over 1"
  double ratio = 0.0;  // of speeds, each as a share of the probe around it: clocks drop out
};

// Those that both sides of were timed, in the order of the figures.
std::vector<SpeedRatio> compare(const std::vector<TimedFigure>& figures);

}  // namespace mla::bench
