// The figures of `mla bench`: one row of the registry on one shape with so many threads, the answer
// verified before anything is timed.
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
  int threads = 1;
  int min_samples = 0;       // 0: 20, or 7 where a run takes long
  double max_seconds = 0.0;  // about how long the samples may take in all
};

struct Figure {
  Accuracy accuracy;
  Speed speed;
  std::string clock;
  std::string skipped;  // why nothing was timed; empty where something was
};

// Errors of the implementation; an answer outside the tolerance is a figure that says so.
Result<Figure> measure(const FigureConfig& config);

}  // namespace mla::bench
