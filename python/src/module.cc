// The extension module libmla._libmla: Python's face of the library.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string_view>

#include "bindings.h"
#include "mla/core.h"

namespace nb = nanobind;

namespace {

// Log lines go to a Python callable (level, text) from whatever thread says them.
void set_python_sink(nb::object sink) {
  if (sink.is_none()) return mla::set_log_sink({});
  const std::shared_ptr<PyObject> callable(sink.release().ptr(), [](PyObject* object) {
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire locked;
    Py_DECREF(object);
  });
  mla::set_log_sink([callable](mla::LogLevel level, std::string_view text) {
    const nb::gil_scoped_acquire locked;
    try {
      nb::handle(callable.get())(static_cast<int>(level), nb::str(text.data(), text.size()));
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("libmla's log sink");
    }
  });
}

}  // namespace

NB_MODULE(_libmla, module) {
  module.doc() = "libmla: selects and runs MLA prefill attention.";
  module.attr("version") = std::string(mla::version());
  module.def("set_log_sink", set_python_sink, nb::arg("sink").none(),
             "Where log lines go: a callable (level, text) with level 0 debug, 1 info, 2 warning, "
             "or None.");
  mla::python::bind_machine(module);
  mla::python::bind_models(module);
  mla::python::bind_selection(module);
  mla::python::bind_registry(module);
  mla::python::bind_attend(module);
  mla::python::bind_dense(module);
  mla::python::bind_merge(module);
  mla::python::bind_reference(module);
  mla::python::bind_prefill(module);
}
