// The request list of `mla run`: "512,17,1000+2048" is new tokens, with context after a plus.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/shape.h"
#include "mla/core.h"

namespace mla::cli {

using bench::RequestLengths;

inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;  // of one request
inline constexpr std::size_t kMaxRequests = 1 << 16;

// One or more NEW or NEW+CONTEXT, separated by commas; spaces around each number are ignored.
// kInvalidArgument names the item at fault and its place.
Result<std::vector<RequestLengths>> parse_requests(std::string_view text);

}  // namespace mla::cli
