// Numbers as people read them: powers of 1024 for memory, commas in counts, a space before units.
#include "units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace mla::cli {
namespace {

std::string formatted(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  if (bytes <= 0) return "unknown";
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  const bool whole = value == std::floor(value) || value >= 100.0;
  return formatted(whole ? "%.0f " : "%.1f ", value) + kUnits[unit];
}

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string percent_text(double share) { return formatted("%.1f %%", share * 100.0); }

std::string number_text(double value) {
  const double size = std::fabs(value);
  if (value == 0.0) return "0";
  if (size < 1e-3 || size >= 1e6) return formatted("%.2e", value);
  if (size >= 100.0) return formatted("%.0f", value);
  return formatted(size >= 10.0 ? "%.1f" : "%.3g", value);
}

std::string plural(std::int64_t count, const std::string& singular) {
  return count_text(count) + " " + singular + (count == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

}  // namespace mla::cli
