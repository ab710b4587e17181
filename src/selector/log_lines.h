// What a selection has to say, in upstream's words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mla/selector.h"

namespace mla {

inline constexpr std::string_view kCapabilityUnknownNote = "capability_unknown";

// "torch.bfloat16"
std::string torch_name(DType dtype);
// "MLAPrefillSelectorConfig(dtype=torch.bfloat16, mla_dimensions=(...))"
std::string config_text(const Problem& problem);
// "{FLASH_ATTN: [reason, reason], CPU:avx2: [reason]}"
std::string reasons_text(const std::vector<Rejected>& rejected);

LogLine using_line(std::string_view backend);
LogLine capability_line();
LogLine rejected_line(const Problem& problem, const std::vector<Rejected>& rejected);

}  // namespace mla
