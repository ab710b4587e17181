// The row that a call on tensors in the CPU's memory runs on.
#pragma once

#include <memory>
#include <string>

#include "errors.h"
#include "mla/attention.h"
#include "mla/core.h"

namespace mla::python {

struct Choice {
  std::string full_name;  // "CPU:avx2"
  std::shared_ptr<const attention::Implementation> implementation;
};

// Selects for this machine's CPU; backend empty: automatically. SelectionError where no row fits,
// Error where the row is only described here.
const Choice& choose(DType dtype, const MlaDims& dims, const std::string& backend);

}  // namespace mla::python
