// The softmax scale of an MLA model: (nope + rope)^-0.5, times yarn's correction.
// Source: DeepSeek-V2's modeling_deepseek.py (yarn_get_mscale and DeepseekV2Attention).
#pragma once

#include <cmath>

#include "mla/core.h"

namespace mla {

// factor and mscale_all_dim of yarn; a factor of at most 1 corrects nothing.
inline double softmax_scale(const MlaDims& dims, double factor, double mscale_all_dim) {
  const double plain = std::pow(static_cast<double>(dims.qk_head_dim()), -0.5);
  if (!(factor > 1.0)) return plain;
  const double mscale = 0.1 * mscale_all_dim * std::log(factor) + 1.0;
  return plain * mscale * mscale;
}

}  // namespace mla
