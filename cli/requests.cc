// Every character is either part of a number, a plus, a comma or a space: anything else is named.
#include "requests.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace mla::cli {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  if (text.size() <= kLongest) return "'" + std::string(text) + "'";
  return "'" + std::string(text.substr(0, kLongest)) + "...'";
}

Error bad_item(std::size_t place, std::string_view item, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "requests",
          "--requests: request " + std::to_string(place) + " is " + shown(item) + ", " + why};
}

enum class Parsed : std::uint8_t { kOk, kNotANumber, kTooLarge };

Parsed parse_count(std::string_view text, std::int64_t& count) {
  text = trim(text);
  // from_chars takes a minus sign; a count has none.
  if (text.empty() || text.front() < '0' || text.front() > '9') return Parsed::kNotANumber;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc::result_out_of_range) return Parsed::kTooLarge;
  if (error != std::errc() || end != text.data() + text.size()) return Parsed::kNotANumber;
  return count > kMaxTokens ? Parsed::kTooLarge : Parsed::kOk;
}

}  // namespace

Result<std::vector<RequestLengths>> parse_requests(std::string_view text) {
  if (trim(text).empty()) {
    return Error{ErrorCode::kInvalidArgument, "requests",
                 "--requests is empty, expected a list such as 512,17,1000+2048"};
  }
  std::vector<RequestLengths> requests;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view item = trim(text.substr(start, end - start));
    const std::size_t plus = item.find('+');
    RequestLengths request;
    Parsed parsed = parse_count(item.substr(0, plus), request.new_tokens);
    if (parsed == Parsed::kOk && plus != std::string_view::npos) {
      parsed = parse_count(item.substr(plus + 1), request.context);
    }
    if (parsed == Parsed::kNotANumber) {
      return bad_item(requests.size() + 1, item, "expected NEW or NEW+CONTEXT tokens");
    }
    if (parsed == Parsed::kTooLarge) {
      return bad_item(requests.size() + 1, item, "more than 2^40 tokens");
    }
    if (requests.size() == kMaxRequests) {
      return Error{ErrorCode::kInvalidArgument, "requests",
                   "--requests has more than " + std::to_string(kMaxRequests) + " requests"};
    }
    requests.push_back(request);
    start = end + 1;
  }
  return requests;
}

}  // namespace mla::cli
