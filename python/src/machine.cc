// devices(): what this machine is.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "errors.h"
#include "mla/platform.h"

namespace mla::python {
namespace {

std::optional<nb::typed<nb::tuple, int, int>> capability(const GpuDevice& gpu) {
  if (!gpu.capability.has_value()) return std::nullopt;
  return nb::make_tuple(gpu.capability->major, gpu.capability->minor);
}

}  // namespace

void bind_machine(nb::module_& module) {
  nb::class_<Cpu>(module, "Cpu", "A CPU: vendor and the instruction sets a process may use.")
      .def_ro("vendor", &Cpu::vendor)
      .def_ro("family", &Cpu::family)
      .def_ro("model", &Cpu::model)
      .def_ro("isa", &Cpu::isa);
  nb::class_<GpuDevice>(module, "GpuDevice", "A GPU that its driver reports.")
      .def_prop_ro("kind", [](const GpuDevice& gpu) { return std::string(name(gpu.kind)); })
      .def_ro("index", &GpuDevice::index)
      .def_ro("name", &GpuDevice::name)
      .def_prop_ro("capability", capability)
      .def_ro("arch", &GpuDevice::arch)
      .def_ro("memory_bytes", &GpuDevice::memory_bytes);
  nb::class_<DriverReport>(module, "DriverReport", "What the driver of a GPU family answered.")
      .def_prop_ro("kind",
                   [](const DriverReport& report) { return std::string(name(report.kind)); })
      .def_ro("present", &DriverReport::present)
      .def_ro("detail", &DriverReport::detail);
  nb::class_<Machine>(module, "Machine", "This machine, detected once.")
      .def_ro("cpu", &Machine::cpu)
      .def_ro("cpu_name", &Machine::cpu_name)
      .def_ro("logical_cpus", &Machine::logical_cpus)
      .def_ro("usable_threads", &Machine::usable_threads)
      .def_ro("threads_limited_by", &Machine::threads_limited_by)
      .def_ro("isa_refused", &Machine::isa_refused)
      .def_ro("gpus", &Machine::gpus)
      .def_ro("drivers", &Machine::drivers);
  module.def(
      "devices", [] { return this_machine(); }, "What this machine is.");
}

}  // namespace mla::python
