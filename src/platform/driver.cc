// dlopen of a driver.
#include "platform/driver.h"

#include <dlfcn.h>

namespace mla::platform {

Driver::Driver(const std::string& library) : library_(library) {
  handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const char* said = dlerror();
  error_ = said != nullptr ? said : library + ": cannot be opened";
}

void* Driver::find(const char* symbol) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, symbol);
}

std::string Driver::missing(const char* symbol) const { return library_ + ": no symbol " + symbol; }

std::string count_devices(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " device" : " devices");
}

}  // namespace mla::platform
