// select(): problem + platform + policy -> which row, and why not the others.
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.h"
#include "errors.h"
#include "mla/selector.h"
#include "tensor.h"

namespace mla::python {
namespace {

constexpr const char* kDoc =
    R"(Chooses the backend row for an MLA prefill; raises SelectionError where none fits.

dims: (qk_nope_head_dim, qk_rope_head_dim, v_head_dim). dtype: a name, or torch's or numpy's dtype.
platform: "cuda", "rocm" or "cpu", described by capability (major, minor), arch ("gfx942") and cpu
({"vendor": ..., "isa": [...]}); None: this machine. backend: "NAME" or "NAME:variant". compat
"vllm": vLLM's own outcome. fallback: an invalid explicit backend goes on with the automatic order.
disabled, unloadable, not_installed: backend names.)";

std::optional<std::string> or_none(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

IsaSet read_isa(nb::handle object) {
  IsaSet isa;
  if (!nb::try_cast(object, isa)) bad_type("cpu", "'isa' as a list of names", kind_of(object));
  std::sort(isa.begin(), isa.end());
  isa.erase(std::unique(isa.begin(), isa.end()), isa.end());
  return isa;
}

Cpu read_cpu(const nb::dict& description) {
  Cpu cpu;
  for (const auto& [key, value] : description) {
    const std::string field = nb::cast<std::string>(nb::str(key));
    if (field == "vendor") {
      if (!nb::try_cast(value, cpu.vendor)) bad_type("cpu", "'vendor' as a str", kind_of(value));
    } else if (field == "isa") {
      cpu.isa = read_isa(value);
    } else {
      bad_value("cpu", "the keys vendor and isa", "'" + field + "'");
    }
  }
  return cpu;
}

using CapabilityPair = std::tuple<int, int>;

using CpuDict = nb::typed<nb::dict, nb::str, nb::any>;

Platform read_platform(const std::optional<std::string>& text,
                       const std::optional<CapabilityPair>& capability,
                       const std::optional<std::string>& arch, const std::optional<CpuDict>& cpu) {
  if (!text.has_value()) {
    if (capability.has_value() || arch.has_value() || cpu.has_value()) {
      bad_value("platform", "'cuda', 'rocm' or 'cpu' with capability, arch or cpu", "None");
    }
    return this_platform();
  }
  const std::optional<DeviceKind> kind = parse_device_kind(*text);
  if (!kind.has_value()) bad_value("platform", "'cuda', 'rocm' or 'cpu'", "'" + *text + "'");
  if (*kind == DeviceKind::kCpu && !cpu.has_value()) return this_cpu_platform();
  Platform platform;
  platform.kind = *kind;
  platform.simulated = true;
  if (capability.has_value()) {
    platform.capability = Capability{std::get<0>(*capability), std::get<1>(*capability)};
  }
  platform.arch = arch.value_or("");
  if (cpu.has_value()) platform.cpu = read_cpu(*cpu);
  return platform;
}

Compat read_compat(const std::optional<std::string>& compat) {
  if (!compat.has_value()) return Compat::kNone;
  if (*compat != "vllm") bad_value("compat", "'vllm' or None", "'" + *compat + "'");
  return Compat::kVllm;
}

std::string repr(const Selection& selection) {
  return "Selection(backend='" + selection.backend + "'" +
         (selection.variant.empty() ? "" : ", variant='" + selection.variant + "'") +
         ", explicit=" + (selection.is_explicit ? "True" : "False") +
         ", rejected=" + std::to_string(selection.rejected.size()) + " rows)";
}

void bind_values(nb::module_& module) {
  nb::class_<Reason>(module, "Reason", "Why a row cannot be used: a code and its text.")
      .def_prop_ro("code", [](const Reason& reason) { return std::string(name(reason.code)); })
      .def_ro("text", &Reason::text)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", [](const Reason& reason) {
        return "Reason(" + std::string(name(reason.code)) + ": " + reason.text + ")";
      });
  nb::class_<Rejected>(module, "Rejected", "A row that was considered, with all its reasons.")
      .def_ro("backend", &Rejected::backend)
      .def_prop_ro("variant", [](const Rejected& row) { return or_none(row.variant); })
      .def_ro("reasons", &Rejected::reasons)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", [](const Rejected& row) {
        std::string text = "Rejected(" + row.backend;
        if (!row.variant.empty()) text += ":" + row.variant;
        for (const Reason& reason : row.reasons) text += "; " + reason.text;
        return text + ")";
      });
  nb::class_<Selection>(module, "Selection", "The chosen row and why the others were not.")
      .def_ro("backend", &Selection::backend)
      .def_prop_ro("variant", [](const Selection& self) { return or_none(self.variant); })
      .def_ro("explicit", &Selection::is_explicit)
      .def_ro("fallback", &Selection::fallback)
      .def_prop_ro("note", [](const Selection& self) { return or_none(self.note); })
      .def_ro("rejected", &Selection::rejected)
      .def_prop_ro("full_name", &Selection::full_name, "\"CPU:avx2\", \"FLASH_ATTN\"")
      .def(
          "to_json", [](const Selection& self) { return to_json(self); },
          "The answer of `mla select --json`.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", repr);
}

using Names = std::vector<std::string>;

}  // namespace

void bind_selection(nb::module_& module) {
  bind_values(module);
  module.def(
      "select",
      [](std::tuple<std::int64_t, std::int64_t, std::int64_t> dims, nb::any dtype,
         std::optional<std::string> platform, std::optional<CapabilityPair> capability,
         std::optional<std::string> backend, std::optional<std::string> compat,
         std::optional<std::string> arch, std::optional<CpuDict> cpu, bool fallback, Names disabled,
         Names unloadable, Names not_installed) {
        Problem problem;
        problem.dtype = dtype_of(dtype, "dtype");
        problem.dims = {std::get<0>(dims), std::get<1>(dims), std::get<2>(dims)};
        Policy policy{backend.value_or(""),  fallback,
                      read_compat(compat),   std::move(disabled),
                      std::move(unloadable), std::move(not_installed)};
        const auto selection =
            select(problem, read_platform(platform, capability, arch, cpu), policy);
        report(*selection);
        if (!selection->ok()) raise(*selection);
        return *selection;
      },
      nb::arg("dims") = std::make_tuple(128, 64, 128), nb::arg("dtype") = "bfloat16",
      nb::arg("platform") = nb::none(), nb::arg("capability") = nb::none(),
      nb::arg("backend") = nb::none(), nb::arg("compat") = nb::none(), nb::kw_only(),
      nb::arg("arch") = nb::none(), nb::arg("cpu") = nb::none(), nb::arg("fallback") = false,
      nb::arg("disabled") = Names(), nb::arg("unloadable") = Names(),
      nb::arg("not_installed") = Names(), kDoc);
  module.def(
      "select_json", [](const std::string& request) { return select_json(request); },
      nb::arg("request"), "One request of `mla select --jsonl` in, its answer out.");
}

}  // namespace mla::python
