// libFuzzer: any bytes as a request. There is an answer, one line of JSON, and it either selects or
// says why not.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "mla/selector.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string answer = mla::select_json(text);
  if (answer.find('\n') != std::string::npos) std::abort();
  const nlohmann::json json = nlohmann::json::parse(answer);
  if (json["selected"].is_null() != json["error"].is_object()) std::abort();
  const mla::Result<mla::Request> request = mla::parse_request(text);
  if (!request.ok()) {
    if (json["error"]["code"] != "invalid_request") std::abort();
    return 0;
  }
  const mla::Selection selection = mla::select_uncached(request->problem, request->platform,
                                                        request->policy, mla::default_registry());
  if (mla::to_json(selection) != answer) std::abort();
  if (mla::explain(request->problem, request->platform, request->policy, selection).empty()) {
    std::abort();
  }
  return 0;
}
