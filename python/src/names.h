// Python strings that are looked up on every call, made once.
#pragma once

#include <nanobind/nanobind.h>

namespace mla::python {

// Lives as long as the process: Python may be gone when static objects are destroyed.
class Name {
 public:
  explicit Name(const char* text) : object_(nanobind::str(text).release().ptr()) {
    PyUnicode_InternInPlace(&object_);
  }
  nanobind::object of(nanobind::handle object) const {
    PyObject* result = PyObject_GetAttr(object.ptr(), object_);
    if (result == nullptr) throw nanobind::python_error();
    return nanobind::steal(result);
  }
  nanobind::object call(nanobind::handle object) const { return of(object)(); }

 private:
  PyObject* object_;
};

// sys.modules[name] where it has been imported, else null. Never imports.
nanobind::object imported(const char* name);

}  // namespace mla::python
