// A HIP runtime that answers what the definitions say: FAKE_ARCH_OFFSET (where gcnArchName lies in
// the properties), FAKE_INIT (the code of hipInit), FAKE_OLD (only the older symbol).
#include <cstddef>
#include <cstdio>
#include <cstring>

#ifndef FAKE_INIT
#define FAKE_INIT 0
#endif

extern "C" {

int hipInit(unsigned) { return FAKE_INIT; }

int hipDriverGetVersion(int* version) {
  *version = 60342131;
  return 0;
}

int hipGetDeviceCount(int* count) {
  *count = 2;
  return 0;
}

int hipDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

int hipDeviceGetName(char* name, int length, int device) {
  // A name that begins like an architecture must not be taken for one.
  std::snprintf(name, static_cast<std::size_t>(length), device == 0 ? "gfxMI300X" : "MI250");
  return 0;
}

int hipDeviceTotalMem(std::size_t* bytes, int) {
  *bytes = std::size_t{192} << 30;
  return 0;
}

int hipDeviceComputeCapability(int* major, int* minor, int device) {
  *major = 9;
  *minor = device == 0 ? 4 : 0;
  return 0;
}

#ifdef FAKE_OLD
int hipGetDeviceProperties(void* properties, int ordinal) {
#else
int hipGetDevicePropertiesR0600(void* properties, int ordinal) {
#endif
  char* bytes = static_cast<char*>(properties);
  std::strcpy(bytes, ordinal == 0 ? "gfxMI300X" : "MI250");
  std::strcpy(bytes + FAKE_ARCH_OFFSET,
              ordinal == 0 ? "gfx942:sramecc+:xnack-" : "gfx90a:sramecc+:xnack-");
  return 0;
}

}  // extern "C"
