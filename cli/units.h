// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mla::cli {

std::string bytes_text(std::int64_t bytes);  // "48 KiB", "1.5 GiB"; 0 is "unknown"
std::string count_text(std::int64_t count);  // "12,288"
std::string percent_text(double share);      // 0.723 -> "72.3 %"
std::string number_text(double value);       // three significant digits, "2.41e-05" when small
std::string plural(std::int64_t count, const std::string& singular);  // "1 request", "3 requests"
std::string joined(const std::vector<std::string>& parts, const std::string& separator);

}  // namespace mla::cli
