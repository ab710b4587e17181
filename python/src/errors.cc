#include "errors.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace mla::python {
namespace {

nb::object error_class(const char* name) {
  return nb::module_::import_("libmla._errors").attr(name);
}

[[noreturn]] void raise_object(const nb::object& exception) {
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

std::string text(const Error& error) {
  // Messages that already open with the argument's name are left alone.
  if (error.field.empty() || error.message.rfind(error.field, 0) == 0) return error.message;
  return error.field + ": " + error.message;
}

std::string complaint(const char* argument, const std::string& wanted, const std::string& got) {
  return std::string(argument) + ": wanted " + wanted + ", got " + got;
}

}  // namespace

void raise(const Error& error) {
  const std::string message = text(error);
  if (error.code == ErrorCode::kOutOfMemory) {
    PyErr_SetString(PyExc_MemoryError, message.c_str());
    throw nb::python_error();
  }
  if (error.code == ErrorCode::kBackendFailed) {
    PyErr_SetString(PyExc_RuntimeError, message.c_str());
    throw nb::python_error();
  }
  raise_object(error_class("Error")(message, std::string(name(error.code)), error.field));
}

void raise(const Selection& selection) {
  const Error& error = *selection.error;
  raise_object(error_class("SelectionError")(error.message, std::string(name(error.code)),
                                             error.field, nb::cast(selection.rejected)));
}

void bad_value(const char* argument, const std::string& wanted, const std::string& got) {
  raise({ErrorCode::kInvalidArgument, argument, complaint(argument, wanted, got)});
}

void bad_type(const char* argument, const std::string& wanted, const std::string& got) {
  throw nb::type_error(complaint(argument, wanted, got).c_str());
}

std::string kind_of(nb::handle object) {
  const nb::object module = nb::getattr(object.type(), "__module__", nb::str(""));
  const std::string name = nb::cast<std::string>(nb::getattr(object.type(), "__qualname__"));
  const std::string prefix = nb::isinstance<nb::str>(module) ? nb::cast<std::string>(module) : "";
  return prefix.empty() || prefix == "builtins" ? name : prefix + "." + name;
}

}  // namespace mla::python
