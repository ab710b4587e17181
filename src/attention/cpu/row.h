// The CPU rows' implementations: the engine over one table of kernels.
#pragma once

#include <memory>
#include <string_view>

#include "mla/attention.h"

namespace mla::attention::cpu {

// "portable", "avx2", ...; null where this build has no such kernels.
std::shared_ptr<const Implementation> make_implementation(std::string_view isa);

}  // namespace mla::attention::cpu
