// Request lists of any bytes: the parser never fails otherwise than by an error that names the
// argument, and what it takes reads back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "requests.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto requests = mla::cli::parse_requests(text);
  if (!requests) {
    if (requests.error().field != "requests" || requests.error().message.empty()) std::abort();
    return 0;
  }
  std::string written;
  for (const auto& request : *requests) {
    if (request.new_tokens < 0 || request.context < 0) std::abort();
    if (!written.empty()) written += ',';
    written += std::to_string(request.new_tokens) + "+" + std::to_string(request.context);
  }
  const auto again = mla::cli::parse_requests(written);
  if (!again || *again != *requests) std::abort();
  return 0;
}
