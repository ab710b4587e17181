// Small reads from /proc and /sys, below a root folder so that tests bring a tree of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mla::platform {

// The file without its last newline; nothing where it cannot be read.
std::optional<std::string> read_text(const std::string& path);

// A whole decimal number, nothing else around it.
std::optional<std::int64_t> parse_number(std::string_view text);

}  // namespace mla::platform
