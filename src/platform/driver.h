// GPU drivers, opened at run time and never linked: a machine without one gets an answer that says
// so. The library's path is an argument so that tests bring a fake driver.
#pragma once

#include <string>
#include <vector>

#include "mla/platform.h"

namespace mla::platform {

struct DriverAnswer {
  DriverReport report;
  std::vector<GpuDevice> devices;
};

DriverAnswer query_cuda(const std::string& library = "libcuda.so.1");
DriverAnswer query_rocm(const std::string& library = "libamdhip64.so");

// A shared library that stays open once it could be opened: drivers do not bear being unloaded.
class Driver {
 public:
  explicit Driver(const std::string& library);
  bool opened() const { return handle_ != nullptr; }
  // What the loader said, or which symbol is missing; empty while all is well.
  const std::string& error() const { return error_; }

  // Sets `function` to the symbol; where there is none, to null, and error() names it.
  template <class Function>
  void load(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(find(symbol));
    if (function == nullptr && error_.empty()) error_ = missing(symbol);
  }
  // The same for a symbol that may be missing.
  template <class Function>
  void load_optional(const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;
  std::string missing(const char* symbol) const;

  std::string library_;
  void* handle_ = nullptr;
  std::string error_;
};

// "1 device", "2 devices"
std::string count_devices(std::size_t count);

// The order in which a driver is asked. An Api loads its symbols from a Driver and has init, count,
// version, describe(call, code), version_text(version), kKind, kInit and kCount (names of calls),
// and a function read_device(api, index).
template <class Api>
DriverAnswer query(const std::string& library) {
  DriverAnswer answer;
  answer.report.kind = Api::kKind;
  Driver driver(library);
  const Api api(driver);
  answer.report.present = driver.opened();
  answer.report.detail = driver.error();
  if (!answer.report.detail.empty()) return answer;
  if (const int code = api.init(0); code != 0) {
    answer.report.detail = api.describe(Api::kInit, code);
    return answer;
  }
  int count = 0;
  if (const int code = api.count(&count); code != 0) {
    answer.report.detail = api.describe(Api::kCount, code);
    return answer;
  }
  for (int index = 0; index < count; ++index) answer.devices.push_back(read_device(api, index));
  int version = 0;
  if (api.version(&version) == 0 && version > 0) {
    answer.report.detail = "driver " + Api::version_text(version) + ", ";
  }
  answer.report.detail += count_devices(answer.devices.size());
  return answer;
}

}  // namespace mla::platform
