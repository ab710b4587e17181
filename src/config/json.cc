// The typed accessors over nlohmann-json that never throw.
#include "config/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mla::json {
namespace {

// Keeps nothing of a text but how many bytes were read when it turned out not to be JSON.
struct FaultFinder : nlohmann::json_sax<Value> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    bytes_read = position;
    return false;
  }

  std::size_t bytes_read = 0;
};

Error not_json(std::string_view text) {
  FaultFinder finder;
  Value::sax_parse(text.begin(), text.end(), &finder);
  if (finder.bytes_read > text.size()) {
    return {ErrorCode::kNotJson, "",
            fmt::format("not valid JSON: it ends too early, after {} bytes", text.size())};
  }
  const std::string_view before = text.substr(0, std::max<std::size_t>(finder.bytes_read, 1) - 1);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {ErrorCode::kNotJson, "",
          fmt::format("not valid JSON at line {}, column {}",
                      1 + std::count(before.begin(), before.end(), '\n'),
                      1 + before.size() - line_start)};
}

}  // namespace

Result<Value> parse(std::string_view text) {
  Value value = Value::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return not_json(text);
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
