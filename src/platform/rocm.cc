// ROCm devices through the HIP runtime (libamdhip64.so). Signatures: hip_runtime_api.h.
#include <cctype>
#include <cstddef>
#include <string_view>

#include "platform/driver.h"

namespace mla::platform {
namespace {

struct HipApi {
  static constexpr DeviceKind kKind = DeviceKind::kRocm;
  static constexpr const char* kInit = "hipInit";
  static constexpr const char* kCount = "hipGetDeviceCount";

  explicit HipApi(Driver& driver) {
    driver.load(kInit, init);
    driver.load("hipDriverGetVersion", version);
    driver.load(kCount, count);
    driver.load("hipDeviceGet", device);
    driver.load("hipDeviceGetName", name);
    driver.load("hipDeviceTotalMem", memory);
    driver.load_optional("hipDeviceComputeCapability", capability);
    // ROCm 6 gave the changed properties a symbol of their own and kept the old one.
    driver.load_optional("hipGetDevicePropertiesR0600", properties);
    if (properties == nullptr) driver.load("hipGetDeviceProperties", properties);
    driver.load_optional("hipGetErrorString", error_string);
  }

  std::string describe(const char* call, int code) const {
    const char* text = error_string != nullptr ? error_string(code) : nullptr;
    return std::string(call) + ": " +
           (text != nullptr ? std::string(text) : "error " + std::to_string(code));
  }

  static std::string version_text(int version) {  // 10,000,000 * major + 100,000 * minor + patch
    return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100);
  }

  int (*init)(unsigned flags);
  int (*version)(int* version);
  int (*count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*name)(char* name, int length, int device);
  int (*memory)(std::size_t* bytes, int device);
  int (*capability)(int* major, int* minor, int device);
  int (*properties)(void* properties, int ordinal);
  const char* (*error_string)(int code);
};

// gcnArchName is "gfx942:sramecc+:xnack-"; its offset in hipDeviceProp_t differs between releases
// of ROCm, so it is found by its form: "gfx" and hexadecimal digits at the start of a string.
std::string find_arch(std::string_view properties) {
  constexpr std::string_view kPrefix = "gfx";
  for (std::size_t at = properties.find(kPrefix); at != std::string_view::npos;
       at = properties.find(kPrefix, at + 1)) {
    if (at > 0 && properties[at - 1] != '\0') continue;
    std::size_t end = at + kPrefix.size();
    while (end < properties.size() && std::isxdigit(static_cast<unsigned char>(properties[end]))) {
      ++end;
    }
    if (end > at + kPrefix.size()) return std::string(properties.substr(at, end - at));
  }
  return "";
}

GpuDevice read_device(const HipApi& api, int index) {
  GpuDevice gpu;
  gpu.kind = HipApi::kKind;
  gpu.index = index;
  int device = 0;
  if (api.device(&device, index) != 0) return gpu;
  char name[256] = {};
  if (api.name(name, sizeof name - 1, device) == 0) gpu.name = name;
  Capability capability;
  if (api.capability != nullptr &&
      api.capability(&capability.major, &capability.minor, device) == 0) {
    gpu.capability = capability;
  }
  std::size_t bytes = 0;
  if (api.memory(&bytes, device) == 0) gpu.memory_bytes = static_cast<std::int64_t>(bytes);
  // The largest hipDeviceProp_t so far has 1,472 bytes.
  alignas(std::max_align_t) char properties[16384] = {};
  if (api.properties(properties, index) == 0) {
    gpu.arch = find_arch(std::string_view(properties, sizeof properties));
  }
  return gpu;
}

}  // namespace

DriverAnswer query_rocm(const std::string& library) { return query<HipApi>(library); }

}  // namespace mla::platform
