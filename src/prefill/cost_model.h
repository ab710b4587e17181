// What a request would cost in either form on one core, from rates measured for each table of
// kernels (docs/prefill.md says how and where).
#pragma once

#include <cstdint>

#include "prefill/geometry.h"
#include "prefill/memory.h"

namespace mla::prefill {

struct Costs {
  double expanded = 0;  // seconds
  double absorbed = 0;
};

Costs model_costs(const Geometry& geometry, const Tiles& tiles, std::int64_t new_tokens,
                  std::int64_t context_tokens);

}  // namespace mla::prefill
