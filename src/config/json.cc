// The typed accessors over nlohmann-json that never throw.
#include "config/json.h"

#include <fmt/format.h>

#include <cmath>

namespace mla::json {

std::optional<Value> parse(std::string_view text) {
  Value value = Value::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return std::nullopt;
  return value;
}

std::string dump(const Answer& answer) {
  return answer.dump(-1, ' ', false, Answer::error_handler_t::replace);
}

std::string_view type_name(const Value& value) {
  switch (value.type()) {
    case Value::value_t::null:
      return "null";
    case Value::value_t::object:
      return "an object";
    case Value::value_t::array:
      return "an array";
    case Value::value_t::string:
      return "a string";
    case Value::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Value::value_t::number_integer:
    case Value::value_t::number_unsigned:
      return "an integer";
    case Value::value_t::number_float:
      return "a number with a fraction";
    default:
      return "something else";
  }
}

const Value* find(const Value& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto member = object.find(key);
  if (member == object.end() || member->is_null()) return nullptr;
  return &*member;
}

Error wrong_type(const Value& value, const std::string& field, std::string_view wanted) {
  return {ErrorCode::kWrongType, field,
          fmt::format("{} must be {}, got {}", field, wanted, type_name(value))};
}

Result<std::int64_t> integer(const Value& value, const std::string& field, Range range) {
  // An integer of more than 64 bits is read as a floating-point number.
  const bool huge = value.is_number_float() && std::abs(value.get<double>()) >= 0x1p63;
  if (!value.is_number_integer() && !huge) return wrong_type(value, field, "an integer");
  const bool too_big = value.is_number_unsigned() &&
                       value.get<std::uint64_t>() >
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (huge || too_big || value.get<std::int64_t>() < range.min ||
      value.get<std::int64_t>() > range.max) {
    return Error{ErrorCode::kOutOfRange, field,
                 fmt::format("{} must be between {} and {}, got {}", field, range.min, range.max,
                             value.dump())};
  }
  return value.get<std::int64_t>();
}

Result<double> number(const Value& value, const std::string& field) {
  if (!value.is_number()) return wrong_type(value, field, "a number");
  return value.get<double>();
}

Result<bool> boolean(const Value& value, const std::string& field) {
  if (!value.is_boolean()) return wrong_type(value, field, "true or false");
  return value.get<bool>();
}

Result<std::string> string(const Value& value, const std::string& field) {
  if (!value.is_string()) return wrong_type(value, field, "a string");
  return value.get<std::string>();
}

Result<std::vector<std::string>> strings(const Value& value, const std::string& field) {
  if (!value.is_array()) return wrong_type(value, field, "an array of strings");
  std::vector<std::string> out;
  out.reserve(value.size());
  for (const Value& element : value) {
    Result<std::string> text = string(element, fmt::format("{}[{}]", field, out.size()));
    if (!text) return text.error();
    out.push_back(std::move(*text));
  }
  return out;
}

}  // namespace mla::json
