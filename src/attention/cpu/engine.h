// Ragged attention on CPU kernels: the schedule, the sharing of packed panels and the walk over
// requests, the same for every instruction set.
#pragma once

#include "attention/cpu/kernels.h"
#include "mla/attention.h"

namespace mla::attention::cpu {

// The arguments have been validated and kernels.supports() their shape. Fails only for want of
// memory, before anything is written.
Status attend(const Kernels& kernels, const Args& args, const RunOptions& options);

}  // namespace mla::attention::cpu
