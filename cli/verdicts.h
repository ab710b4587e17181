// A selection row by row, as explain and run print it.
#pragma once

#include <string>
#include <vector>

#include "console.h"
#include "mla/selector.h"

namespace mla::cli {

struct Verdict {
  std::string row;
  std::string verdict;
  Tone tone;
  std::vector<Reason> reasons;
};

std::string row_name(const std::string& backend, const std::string& variant);
// The refused rows in the order considered, then the chosen one.
std::vector<Verdict> verdicts_of(const Selection& selection);
std::string verdict_text(const std::vector<Verdict>& verdicts, const Style& style, int columns);

}  // namespace mla::cli
