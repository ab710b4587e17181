// Model configurations: by name, from a config.json, from a dict.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "errors.h"
#include "mla/config.h"

namespace mla::python {
namespace {

using Dims = nb::typed<nb::tuple, int, int, int>;

Dims dims(const ModelConfig& config) {
  return nb::make_tuple(config.dims.qk_nope_head_dim, config.dims.qk_rope_head_dim,
                        config.dims.v_head_dim);
}

std::string repr(const ModelConfig& config) {
  return "ModelConfig(model_type='" + config.model_type + "', dims=" + to_string(config.dims) +
         ", kv_lora_rank=" + std::to_string(config.kv_lora_rank) +
         ", num_heads=" + std::to_string(config.num_heads) + ", dtype='" +
         std::string(name(config.dtype)) + "')";
}

}  // namespace

void bind_models(nb::module_& module) {
  nb::class_<ModelConfig>(module, "ModelConfig", "What a config.json says about MLA attention.")
      .def_ro("model_type", &ModelConfig::model_type)
      .def_prop_ro("dims", dims, "(qk_nope_head_dim, qk_rope_head_dim, v_head_dim)")
      .def_ro("kv_lora_rank", &ModelConfig::kv_lora_rank)
      .def_ro("q_lora_rank", &ModelConfig::q_lora_rank)
      .def_ro("num_heads", &ModelConfig::num_heads)
      .def_prop_ro("dtype",
                   [](const ModelConfig& config) { return std::string(name(config.dtype)); })
      .def_ro("softmax_scale", &ModelConfig::softmax_scale)
      .def("__repr__", repr);
  module.def(
      "parse_model_config",
      [](const std::string& json, const std::string& source) {
        return check(parse_model_config(json, source));
      },
      nb::arg("json"), nb::arg("source") = "config", "Reads the text of a config.json.");
  module.def(
      "load_model", [](const std::string& name_or_path) { return check(load_model(name_or_path)); },
      nb::arg("name_or_path"), "A model known by name, or the path of a config.json.");
  module.def(
      "models",
      [] {
        std::vector<std::string> names;
        for (const NamedModel& model : named_models()) names.emplace_back(model.name);
        return names;
      },
      "The names load_model() knows.");
}

}  // namespace mla::python
