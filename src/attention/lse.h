// The one place where an implementation's log-sum-exp becomes the contract's: [H,T], natural
// logarithm, -inf for rows that see no key.
#pragma once

#include "mla/attention.h"

namespace mla::attention {

// raw: what the implementation wrote, in its layout: [H,T] with head stride raw_head_stride, or
// [T,H] without gaps. Writes args.lse, which may be raw where the layout is [H,T] and the stride
// the same. A row is empty because of its place in the batch, never because of the value found.
void normalise_lse(const Traits& traits, const Args& args, const float* raw,
                   std::int64_t raw_head_stride);

}  // namespace mla::attention
