// The selection as a page for people: what was asked, what was chosen and how, and every row that
// was refused with all of its reasons.
#include <fmt/format.h>

#include <algorithm>

#include "mla/selector.h"

namespace mla {
namespace {

std::string how(const Selection& selection, const Policy& policy) {
  std::string text = selection.is_explicit ? "as asked for"
                     : selection.fallback  ? "in place of " + policy.backend
                                           : "automatic";
  if (!selection.note.empty()) text += "; capability unknown";
  return text;
}

}  // namespace

std::string explain(const Problem& problem, const Platform& platform, const Policy& policy,
                    const Selection& selection) {
  std::string page = fmt::format("problem   {} {}\nplatform  {}\n", name(problem.dtype),
                                 to_string(problem.dims), to_string(platform));
  if (policy.compat == Compat::kVllm) page += "mode      as vLLM would choose\n";
  if (selection.ok()) {
    page += fmt::format("selected  {} ({})\n", selection.full_name(), how(selection, policy));
  } else {
    page += fmt::format("selected  none ({})\n", name(selection.error->code));
    // With refused rows the message only repeats what the list below says.
    if (selection.rejected.empty()) page += fmt::format("          {}\n", selection.error->message);
  }
  std::size_t width = 0;
  for (const Rejected& row : selection.rejected) width = std::max(width, row.full_name().size());
  const char* label = "refused";
  for (const Rejected& row : selection.rejected) {
    std::string full_name = row.full_name();
    for (const Reason& reason : row.reasons) {
      page += fmt::format("{:<10}{:<{}}  {}\n", label, full_name, width, reason.text);
      label = "";
      full_name.clear();
    }
  }
  return page;
}

}  // namespace mla
