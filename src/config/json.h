// JSON in and out without exceptions: a reader that names the field at fault, and dump settings
// that accept any bytes. Private to the layers that have text faces.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mla/core.h"

namespace mla::json {

using Value = nlohmann::json;
// Keeps the order of the fields, for answers.
using Answer = nlohmann::ordered_json;

// kNotJson, with the place, where the text is not JSON.
Result<Value> parse(std::string_view text);
// One line; bytes that are not UTF-8 are replaced.
std::string dump(const Answer& answer);

// "a string", "true or false", "an array", ...
std::string_view type_name(const Value& value);

// The member, or null where it is absent or null: both mean "not given".
const Value* find(const Value& object, std::string_view key);

struct Range {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

// An integer within the range. kWrongType (also for true, 1.0 and "1"), kOutOfRange; `field` goes
// into the error.
Result<std::int64_t> integer(const Value& value, const std::string& field, Range range);
Result<double> number(const Value& value, const std::string& field);
Result<bool> boolean(const Value& value, const std::string& field);
Result<std::string> string(const Value& value, const std::string& field);
Result<std::vector<std::string>> strings(const Value& value, const std::string& field);

Error wrong_type(const Value& value, const std::string& field, std::string_view wanted);

}  // namespace mla::json
