#include "choice.h"

#include <nanobind/stl/string.h>

#include "mla/registry.h"
#include "mla/selector.h"

namespace mla::python {
namespace {

struct Key {
  DType dtype;
  MlaDims dims;
  std::string backend;
  std::uint64_t generation;
  friend bool operator==(const Key&, const Key&) = default;
};

}  // namespace

const Choice& choose(DType dtype, const MlaDims& dims, const std::string& backend) {
  // The last answer, under the GIL: a model asks the same for every layer of every step.
  static Key last_key{};
  static Choice last;
  Key key{dtype, dims, backend, default_registry().generation()};
  if (last.implementation != nullptr && key == last_key) return last;

  Policy policy;
  policy.backend = backend;
  const Problem problem{dtype, dims, std::nullopt, std::nullopt};
  const auto selection = select(problem, this_cpu_platform(), policy);
  if (!selection->ok()) raise(*selection);
  Row row = check(selected_row(*selection, default_registry()));
  if (row.implementation == nullptr) {
    raise({ErrorCode::kUnsupported, "backend",
           "backend: " + row.full_name() + " is described in the registry but runs nothing here"});
  }
  last = {row.full_name(), std::move(row.implementation)};
  last_key = std::move(key);
  return last;
}

}  // namespace mla::python
