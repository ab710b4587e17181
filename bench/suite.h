// The figures of `mla bench`: one row of the registry on one shape with each number of threads, the
// answer verified before anything is timed, and the numbers of threads timed turn and turn about.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accuracy.h"
#include "mla/attention.h"
#include "sampling.h"
#include "shape.h"

namespace mla::bench {

struct FigureConfig {
  const attention::Implementation* implementation = nullptr;
  Shape shape;
  std::vector<int> threads = {1};
  int min_samples = 0;       // 0: 20, or 7 where a run takes long
  double max_seconds = 0.0;  // about how long the samples of a number of threads may take in all
};

struct Figure {
  Accuracy accuracy;
  Speed speed;
  double over_one_thread = 0.0;  // scaling() over one thread; 0: that was not timed beside it
  std::string clock;
  std::string skipped;  // why nothing was timed; empty where something was
};

// One figure for each number of threads, or an error of the implementation. An answer outside the
// tolerance is a figure that says so.
Result<std::vector<Figure>> measure(const FigureConfig& config);

}  // namespace mla::bench
