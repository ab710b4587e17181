// The JSON of the values that several commands print.
#include "json.h"

namespace mla::cli {
namespace {

std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string pretty(const Json& json) { return dumped(json, 2) + "\n"; }
std::string compact(const Json& json) { return dumped(json, -1); }

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json json_of(const MlaDims& dims) {
  return Json::array({dims.qk_nope_head_dim, dims.qk_rope_head_dim, dims.v_head_dim});
}

Json json_of(const Error& error) {
  return {
      {"code", name(error.code)}, {"field", text_or_null(error.field)}, {"message", error.message}};
}

Json json_of(const std::vector<Reason>& reasons) {
  Json list = Json::array();
  for (const Reason& reason : reasons) {
    list.push_back({{"code", name(reason.code)}, {"text", reason.text}});
  }
  return list;
}

Json json_of(const Requirements& needs) {
  Json devices = Json::array();
  for (const DeviceKind kind : needs.devices) devices.push_back(name(kind));
  Json capabilities = Json::array();
  for (const auto& range : needs.capabilities) {
    capabilities.push_back({{"min_major", range.min_major}, {"max_major", range.max_major}});
  }
  Json dtypes = Json::array();
  for (const DType dtype : needs.dtypes) dtypes.push_back(name(dtype));
  Json dims = Json::array();
  for (const MlaDims& one : needs.dims) dims.push_back(json_of(one));
  return {{"devices", devices},
          {"capabilities", capabilities},
          {"archs", needs.archs},
          {"cpu_vendor", text_or_null(needs.cpu_vendor)},
          {"min_cpu_family", needs.min_cpu_family},
          {"isa", needs.isa},
          {"dtypes", dtypes},
          {"dims", needs.dims.empty() ? Json("any") : dims}};
}

Json json_of(const Platform& platform) {
  Json json = {{"platform", name(platform.kind)}, {"simulated", platform.simulated}};
  if (platform.kind == DeviceKind::kCpu) {
    json["cpu"] = {{"vendor", text_or_null(platform.cpu.vendor)},
                   {"family", platform.cpu.family},
                   {"isa", platform.cpu.isa}};
    return json;
  }
  json["capability"] = platform.capability.has_value()
                           ? Json::array({platform.capability->major, platform.capability->minor})
                           : Json();
  if (platform.kind == DeviceKind::kRocm) json["arch"] = text_or_null(platform.arch);
  return json;
}

}  // namespace mla::cli
