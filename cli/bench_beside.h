// `mla bench prefill --kernel`: the operator beside its attention kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "run_choice.h"

namespace mla::cli {

struct BesideFlags {
  std::vector<std::int64_t> fresh;
  std::vector<std::int64_t> context;
  std::vector<int> threads;
  std::int64_t heads = 0;
  int samples = 0;
  bool json = false;
};

int bench_beside_kernel(const BesideFlags& flags, const RunChoice& choice, DType dtype);

}  // namespace mla::cli
