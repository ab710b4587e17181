// How the commands write JSON: keys in the order they were set, bad UTF-8 replaced, never thrown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "mla/config.h"
#include "mla/registry.h"
#include "mla/selector.h"

namespace mla::cli {

using Json = nlohmann::ordered_json;

std::string pretty(const Json& json);  // indented, with a newline at the end
std::string compact(const Json& json);

// null where the text is empty.
Json text_or_null(const std::string& text);
Json json_of(const MlaDims& dims);  // [nope, rope, v]
Json json_of(const Error& error);   // {"code", "field", "message"}
Json json_of(const Requirements& needs);
Json json_of(const std::vector<Reason>& reasons);
Json json_of(const Platform& platform);

}  // namespace mla::cli
