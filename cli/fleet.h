// The platforms of `mla matrix` with what people call them.
#pragma once

#include <string>
#include <vector>

#include "mla/selector.h"

namespace mla::cli {

struct FleetMember {
  std::string id;     // "sm_100", "here"
  std::string title;  // "NVIDIA B200, GB200"
  Platform platform;
};

// known_platforms(), this machine first.
std::vector<FleetMember> fleet();

}  // namespace mla::cli
