// Rows and a platform for tests of the registry and of what is chosen from it.
#pragma once

#include <string>
#include <utility>

#include "mla/registry.h"

namespace mla {

inline Row cpu_row(std::string backend, std::string variant = "") {
  Row row;
  row.backend = std::move(backend);
  row.variant = std::move(variant);
  row.needs.devices = {DeviceKind::kCpu};
  row.needs.dtypes = {DType::kBFloat16};
  return row;
}

inline Platform any_cpu() {
  Platform platform;
  platform.simulated = true;
  return platform;
}

}  // namespace mla
