// The wording is vLLM 0.32's (selector.py and platforms/interface.py, Apache-2.0), to the letter.
#include "selector/log_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mla {

std::string torch_name(DType dtype) {
  return dtype == DType::kFloat8E4M3 ? "torch.float8_e4m3fn" : fmt::format("torch.{}", name(dtype));
}

std::string config_text(const Problem& problem) {
  return fmt::format("MLAPrefillSelectorConfig(dtype={}, mla_dimensions={})",
                     torch_name(problem.dtype), to_string(problem.dims));
}

std::string reasons_text(const std::vector<Rejected>& rejected) {
  std::string text = "{";
  for (const Rejected& row : rejected) {
    if (text.size() > 1) text += ", ";
    std::vector<std::string_view> reasons;
    for (const Reason& reason : row.reasons) reasons.push_back(reason.text);
    text += fmt::format("{}: [{}]", row.full_name(), fmt::join(reasons, ", "));
  }
  return text + "}";
}

LogLine using_line(std::string_view backend) {
  return {LogLevel::kInfo, fmt::format("Using {} MLA prefill backend.", backend)};
}

LogLine capability_line() {
  return {LogLevel::kInfo,
          "Device capability not available, using FlashAttention MLA prefill backend."};
}

LogLine rejected_line(const Problem& problem, const std::vector<Rejected>& rejected) {
  return {LogLevel::kDebug,
          fmt::format("Some MLA prefill backends are not valid with {}. Reasons: {}.",
                      config_text(problem), reasons_text(rejected))};
}

}  // namespace mla
