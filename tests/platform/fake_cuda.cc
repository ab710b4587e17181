// A CUDA driver that answers what the definitions say: FAKE_DEVICES, FAKE_INIT (the code of
// cuInit), FAKE_OLD (without cuDeviceTotalMem_v2).
#include <cstddef>
#include <cstring>

#ifndef FAKE_INIT
#define FAKE_INIT 0
#endif

namespace {
bool initialized = false;
constexpr int kNotInitialized = 3;
constexpr int kFirstHandle = 40;  // a device's handle is not its ordinal
}  // namespace

extern "C" {

int cuInit(unsigned flags) {
  initialized = flags == 0 && FAKE_INIT == 0;
  return FAKE_INIT;
}

int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}

int cuDeviceGetCount(int* count) {
  if (!initialized) return kNotInitialized;
  *count = FAKE_DEVICES;
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = kFirstHandle + ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int length, int device) {
  std::strncpy(name, device == kFirstHandle ? "Fake B200" : "Fake H100",
               static_cast<std::size_t>(length));
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const bool first = device == kFirstHandle;
  if (attribute == 75) {
    *value = first ? 10 : 9;
  } else if (attribute == 76) {
    *value = 0;
  } else {
    return 1;
  }
  return 0;
}

#ifndef FAKE_OLD
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = static_cast<std::size_t>(device == kFirstHandle ? 180 : 80) << 30;
  return 0;
}
#endif

int cuGetErrorString(int code, const char** text) {
  *text = code == 100 ? "no CUDA-capable device is detected" : nullptr;
  return code == 100 ? 0 : 1;
}

}  // extern "C"
