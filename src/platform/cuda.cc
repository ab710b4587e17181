// CUDA devices through the driver API (libcuda.so.1). Signatures and numbers: CUDA Driver API
// reference, cuda.h. cuInit is the only call that touches the devices; no context is made.
#include <cstddef>

#include "platform/driver.h"

namespace mla::platform {
namespace {

constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR

struct CudaApi {
  static constexpr DeviceKind kKind = DeviceKind::kCuda;
  static constexpr const char* kInit = "cuInit";
  static constexpr const char* kCount = "cuDeviceGetCount";

  explicit CudaApi(Driver& driver) {
    driver.load(kInit, init);
    driver.load("cuDriverGetVersion", version);
    driver.load(kCount, count);
    driver.load("cuDeviceGet", device);
    driver.load("cuDeviceGetName", name);
    driver.load("cuDeviceGetAttribute", attribute);
    driver.load("cuDeviceTotalMem_v2", memory);
    driver.load_optional("cuGetErrorString", error_string);
  }

  std::string describe(const char* call, int code) const {
    const char* text = nullptr;
    if (error_string != nullptr) error_string(code, &text);
    return std::string(call) + ": " +
           (text != nullptr ? std::string(text) : "error " + std::to_string(code));
  }

  static std::string version_text(int version) {  // 1000 * major + 10 * minor
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  int (*init)(unsigned flags);
  int (*version)(int* version);
  int (*count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*name)(char* name, int length, int device);
  int (*attribute)(int* value, int attribute, int device);
  int (*memory)(std::size_t* bytes, int device);
  int (*error_string)(int code, const char** text);
};

GpuDevice read_device(const CudaApi& api, int index) {
  GpuDevice gpu;
  gpu.kind = CudaApi::kKind;
  gpu.index = index;
  int device = 0;
  if (api.device(&device, index) != 0) return gpu;
  char name[256] = {};
  if (api.name(name, sizeof name - 1, device) == 0) gpu.name = name;
  Capability capability;
  if (api.attribute(&capability.major, kCapabilityMajor, device) == 0 &&
      api.attribute(&capability.minor, kCapabilityMinor, device) == 0) {
    gpu.capability = capability;
  }
  std::size_t bytes = 0;
  if (api.memory(&bytes, device) == 0) gpu.memory_bytes = static_cast<std::int64_t>(bytes);
  return gpu;
}

}  // namespace

DriverAnswer query_cuda(const std::string& library) { return query<CudaApi>(library); }

}  // namespace mla::platform
