// The order in which backends are tried.
#pragma once

#include <span>
#include <string_view>

#include "mla/core.h"
#include "mla/platform.h"

namespace mla {

std::span<const std::string_view> priority(const Platform& platform, const MlaDims& dims);

}  // namespace mla
