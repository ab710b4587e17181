// Compat mode: what vLLM's selector would do, to the letter.
#pragma once

#include "selector/validate.h"

namespace mla {

Selection select_compat(const Question& question, const Registry& registry);

}  // namespace mla
