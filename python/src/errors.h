// Errors of the library as Python exceptions, and the wording of complaints about arguments.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "mla/core.h"
#include "mla/selector.h"

namespace mla::python {

namespace nb = nanobind;

// libmla.Error (a ValueError) with .code and .field; MemoryError and RuntimeError for what is not
// the arguments' fault.
[[noreturn]] void raise(const Error& error);
// libmla.SelectionError with .code and .rejected.
[[noreturn]] void raise(const Selection& selection);
// "NAME: wanted WANTED, got GOT" as a ValueError or TypeError.
[[noreturn]] void bad_value(const char* argument, const std::string& wanted,
                            const std::string& got);
[[noreturn]] void bad_type(const char* argument, const std::string& wanted, const std::string& got);

inline void check(const Status& status) {
  if (!status.ok()) raise(status.error());
}

template <class T>
T check(Result<T> result) {
  if (!result.ok()) raise(result.error());
  return std::move(result).value();
}

// The qualified name of an object's type, for messages.
std::string kind_of(nb::handle object);

}  // namespace mla::python
