// Names of device kinds and platforms as a line.
#include "mla/platform.h"

namespace mla {

std::string_view name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCuda:
      return "cuda";
    case DeviceKind::kRocm:
      return "rocm";
    case DeviceKind::kCpu:
      return "cpu";
  }
  return "unknown";
}

std::optional<DeviceKind> parse_device_kind(std::string_view text) {
  for (DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kRocm, DeviceKind::kCpu}) {
    if (text == name(kind)) return kind;
  }
  return std::nullopt;
}

std::string to_string(const Platform& platform) {
  std::string line(name(platform.kind));
  switch (platform.kind) {
    case DeviceKind::kCuda:
      line += ", compute capability ";
      line += platform.capability ? std::to_string(platform.capability->major) + "." +
                                        std::to_string(platform.capability->minor)
                                  : "unknown";
      break;
    case DeviceKind::kRocm:
      line += platform.arch.empty() ? ", architecture unknown" : ", " + platform.arch;
      break;
    case DeviceKind::kCpu:
      line += platform.cpu.vendor.empty() ? ", vendor unknown" : ", " + platform.cpu.vendor;
      if (!platform.cpu.isa.empty()) line += ",";
      for (const std::string& feature : platform.cpu.isa) line += " " + feature;
      break;
  }
  return line;
}

}  // namespace mla
