// The registry of rows: looked at, added to and overridden, as data.
#include "mla/registry.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.h"
#include "errors.h"

namespace mla::python {
namespace {

using Names = std::vector<std::string>;
using DimsTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
using Range = std::tuple<int, int>;

Row make_row(std::string backend, std::string variant, std::string description) {
  Row row;
  row.backend = std::move(backend);
  row.variant = std::move(variant);
  row.description = std::move(description);
  return row;
}

void set_devices(const Names& names, Row& row) {
  for (const std::string& text : names) {
    const std::optional<DeviceKind> kind = parse_device_kind(text);
    if (!kind.has_value()) bad_value("devices", "'cuda', 'rocm' or 'cpu'", "'" + text + "'");
    row.needs.devices.push_back(*kind);
  }
}

void set_dtypes(const Names& names, Row& row) {
  for (const std::string& text : names) {
    const std::optional<DType> dtype = parse_dtype(text);
    if (!dtype.has_value()) bad_value("dtypes", "names of dtypes", "'" + text + "'");
    row.needs.dtypes.push_back(*dtype);
  }
}

Names device_names(const Row& row) {
  Names names;
  for (const DeviceKind kind : row.needs.devices) names.emplace_back(name(kind));
  return names;
}

Names dtype_names(const Row& row) {
  Names names;
  for (const DType dtype : row.needs.dtypes) names.emplace_back(name(dtype));
  return names;
}

std::vector<DimsTuple> dims_tuples(const Row& row) {
  std::vector<DimsTuple> tuples;
  for (const MlaDims& dims : row.needs.dims) {
    tuples.emplace_back(dims.qk_nope_head_dim, dims.qk_rope_head_dim, dims.v_head_dim);
  }
  return tuples;
}

std::vector<Range> capability_ranges(const Row& row) {
  std::vector<Range> ranges;
  for (const auto& range : row.needs.capabilities) {
    ranges.emplace_back(range.min_major, range.max_major);
  }
  return ranges;
}

void bind_row(nb::module_& module) {
  nb::class_<Row>(module, "Row",
                  "One line of the registry: what a backend needs, as data. capabilities: ranges\n"
                  "(first, last) of CUDA's major number; empty lists accept anything.")
      .def(
          "__init__",
          [](Row* self, std::string backend, std::string variant, std::string description,
             const Names& devices, const Names& dtypes, const std::vector<DimsTuple>& dims,
             const std::vector<Range>& capabilities, Names archs, std::string cpu_vendor, Names isa,
             std::string dependency_hint) {
            Row row = make_row(std::move(backend), std::move(variant), std::move(description));
            set_devices(devices, row);
            set_dtypes(dtypes, row);
            for (const auto& [nope, rope, v] : dims) row.needs.dims.push_back({nope, rope, v});
            for (const auto& [first, last] : capabilities) {
              row.needs.capabilities.push_back({first, last});
            }
            row.needs.archs = std::move(archs);
            row.needs.cpu_vendor = std::move(cpu_vendor);
            std::sort(isa.begin(), isa.end());
            row.needs.isa = std::move(isa);
            row.dependency_hint = std::move(dependency_hint);
            new (self) Row(std::move(row));
          },
          nb::arg("backend"), nb::kw_only(), nb::arg("variant") = "", nb::arg("description") = "",
          nb::arg("devices") = Names{"cpu"},
          nb::arg("dtypes") = Names{"float32", "float16", "bfloat16"},
          nb::arg("dims") = std::vector<DimsTuple>(),
          nb::arg("capabilities") = std::vector<Range>(), nb::arg("archs") = Names(),
          nb::arg("cpu_vendor") = "", nb::arg("isa") = Names(), nb::arg("dependency_hint") = "")
      .def_ro("backend", &Row::backend)
      .def_ro("variant", &Row::variant)
      .def_ro("description", &Row::description)
      .def_prop_ro("devices", device_names)
      .def_prop_ro("dtypes", dtype_names)
      .def_prop_ro("dims", dims_tuples)
      .def_prop_ro("capabilities", capability_ranges)
      .def_prop_ro("archs", [](const Row& row) { return row.needs.archs; })
      .def_prop_ro("cpu_vendor", [](const Row& row) { return row.needs.cpu_vendor; })
      .def_prop_ro("isa", [](const Row& row) { return row.needs.isa; })
      .def_ro("dependency_hint", &Row::dependency_hint)
      .def_prop_ro(
          "runs_here", [](const Row& row) { return row.implementation != nullptr; },
          "Whether libmla itself runs it; other rows are described and selected only.")
      .def_prop_ro("full_name", &Row::full_name)
      .def("__repr__", [](const Row& row) { return "Row(" + row.full_name() + ")"; });
}

}  // namespace

void bind_registry(nb::module_& module) {
  bind_row(module);
  nb::class_<Registry>(module, "Registry", "The rows a selection chooses from.")
      .def("rows", &Registry::rows, "All rows, variants best first.")
      .def("names", &Registry::names, "Backend names, CUSTOM included.")
      .def(
          "find",
          [](const Registry& self, const std::string& name) { return check(self.find(name)); },
          nb::arg("name"), "The rows of \"NAME\", or the one of \"NAME:variant\".")
      .def(
          "add", [](Registry& self, const Row& row) { check(self.add(row)); }, nb::arg("row"))
      .def(
          "override",
          [](Registry& self, const std::string& name, const Row& row) {
            check(self.override_backend(name, row));
          },
          nb::arg("name"), nb::arg("row"), "Puts row in the place of all rows of a name.")
      .def(
          "clear_override",
          [](Registry& self, const std::string& name) { check(self.clear_override(name)); },
          nb::arg("name"))
      .def(
          "is_overridden",
          [](const Registry& self, const std::string& name) {
            return check(self.is_overridden(name));
          },
          nb::arg("name"))
      .def_prop_ro("generation", &Registry::generation, "Another number after every change.");
  module.attr("registry") = nb::cast(&default_registry(), nb::rv_policy::reference);
}

}  // namespace mla::python
