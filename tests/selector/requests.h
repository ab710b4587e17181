// Requests and answers as JSON values, for the tests of the text face.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mla/selector.h"

namespace mla {

using Json = nlohmann::json;

inline Json ask(const Json& request, Registry& registry = default_registry()) {
  return Json::parse(select_json(request.dump(), registry));
}

inline Json cuda(int major, int minor, Json more = Json::object()) {
  Json request = {{"platform", "cuda"}, {"capability", {major, minor}}, {"dims", {128, 64, 128}}};
  request.update(more);
  return request;
}

inline Json cpu(std::string vendor, std::vector<std::string> isa, Json more = Json::object()) {
  Json request = {{"platform", "cpu"},
                  {"cpu", {{"vendor", std::move(vendor)}, {"isa", std::move(isa)}}},
                  {"dims", {128, 64, 128}}};
  request.update(more);
  return request;
}

// "CPU:avx2" of an answer, "" where nothing was selected.
inline std::string chosen(const Json& answer) {
  if (answer["selected"].is_null()) return "";
  std::string name = answer["selected"];
  if (!answer["variant"].is_null()) name += ":" + answer["variant"].get<std::string>();
  return name;
}

// The codes against "NAME" or "NAME:variant" in an answer.
inline std::vector<std::string> reasons(const Json& answer, const std::string& row) {
  for (const Json& rejected : answer["rejected"]) {
    std::string name = rejected["backend"];
    if (!rejected["variant"].is_null()) name += ":" + rejected["variant"].get<std::string>();
    if (name != row) continue;
    std::vector<std::string> codes;
    for (const Json& reason : rejected["reasons"]) codes.push_back(reason["code"]);
    return codes;
  }
  return {"not refused"};
}

inline std::string text_of(const Json& answer, const std::string& row, const std::string& code) {
  for (const Json& rejected : answer["rejected"]) {
    std::string name = rejected["backend"];
    if (!rejected["variant"].is_null()) name += ":" + rejected["variant"].get<std::string>();
    for (const Json& reason : rejected["reasons"]) {
      if (name == row && reason["code"] == code) return reason["text"];
    }
  }
  return "";
}

}  // namespace mla
