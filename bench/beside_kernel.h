// The prefill operator and the attention kernel it is made of, turn and turn about on the same
// lengths: what projecting latents costs beside attending to K and V that are there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mla/attention.h"
#include "mla/prefill.h"
#include "sampling.h"
#include "shape.h"

namespace mla::bench {

struct BesideConfig {
  std::shared_ptr<const attention::Implementation> implementation;
  Shape shape;
  std::int64_t kv_lora_rank = 0;
  std::vector<int> threads = {1};
  int samples = 0;
};

// Of one number of threads.
struct Beside {
  int threads = 1;
  Speed kernel;               // all of a head's K and V in memory
  Speed op;                   // counted over projection and attention
  double op_over_kernel = 0;  // share over share, the median of the turns
  double kernel_scaling = 0;  // over the first number of threads, wall time; 0: that is this one
  double op_scaling = 0;
  prefill::Form form = prefill::Form::kAuto;  // of the first request
  std::int64_t scratch_bytes = 0;
};

// Both answers are verified before anything is timed.
Result<std::vector<Beside>> measure_beside_kernel(const BesideConfig& config);

}  // namespace mla::bench
