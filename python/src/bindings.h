// One function a file: what it adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace mla::python {

void bind_machine(nanobind::module_& module);
void bind_models(nanobind::module_& module);
void bind_selection(nanobind::module_& module);
void bind_registry(nanobind::module_& module);
void bind_attend(nanobind::module_& module);
void bind_dense(nanobind::module_& module);
void bind_merge(nanobind::module_& module);
void bind_reference(nanobind::module_& module);
void bind_prefill(nanobind::module_& module);

}  // namespace mla::python
