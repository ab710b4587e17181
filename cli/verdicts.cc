// One line a row, one line a further reason.
#include "verdicts.h"

#include "table.h"

namespace mla::cli {

std::string row_name(const std::string& backend, const std::string& variant) {
  return variant.empty() ? backend : backend + ":" + variant;
}

std::vector<Verdict> verdicts_of(const Selection& selection) {
  std::vector<Verdict> verdicts;
  for (const Rejected& rejected : selection.rejected) {
    verdicts.push_back(
        {row_name(rejected.backend, rejected.variant), "refused", Tone::kBad, rejected.reasons});
  }
  if (selection.ok()) verdicts.push_back({selection.full_name(), "chosen", Tone::kGood, {}});
  return verdicts;
}

std::string verdict_text(const std::vector<Verdict>& verdicts, const Style& style, int columns) {
  Table table({{"row"}, {"verdict"}, {"reasons"}});
  for (const Verdict& verdict : verdicts) {
    std::string reasons;
    for (const Reason& reason : verdict.reasons) {
      reasons += (reasons.empty() ? "" : "\n") + reason.text;
    }
    table.add({Cell(verdict.row, verdict.tone == Tone::kGood ? Tone::kStrong : Tone::kPlain),
               Cell(verdict.verdict, verdict.tone), reasons});
  }
  return table.empty() ? "" : table.text(style, columns);
}

}  // namespace mla::cli
