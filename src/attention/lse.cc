// Layout, base and empty rows of a foreign log-sum-exp.
#include "attention/lse.h"

#include "attention/ragged.h"

namespace mla::attention {

void normalise_lse(const Traits& traits, const Args& args, const float* raw,
                   std::int64_t raw_head_stride) {
  constexpr float kLn2 = 0.693147180559945309f;
  const float factor = traits.lse_base == LseBase::k2 ? kLn2 : 1.0f;
  const bool heads_first = traits.lse_layout == LseLayout::kHeadsTokens;
  const std::int64_t stride = lse_stride(args);
  for (std::int64_t r = 0; r < args.num_requests; ++r) {
    const Request request = request_of(args, r);
    for (std::int64_t i = 0; i < request.q_length; ++i) {
      const std::int64_t t = request.q_begin + i;
      const bool empty = request.visible(i) == 0;
      for (std::int64_t h = 0; h < args.num_heads; ++h) {
        const float value =
            heads_first ? raw[h * raw_head_stride + t] : raw[t * args.num_heads + h];
        args.lse[h * stride + t] = empty ? -std::numeric_limits<float>::infinity() : value * factor;
      }
    }
  }
}

}  // namespace mla::attention
