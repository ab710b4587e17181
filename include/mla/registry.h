// The rows a selection chooses from: what each backend needs, as data, and what it runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mla/core.h"
#include "mla/platform.h"

namespace mla {

namespace attention {
class Implementation;  // mla/attention.h
}

// What a row needs. Data only: a row that this machine cannot run is still described and checked.
struct Requirements {
  std::vector<DeviceKind> devices;
  // cuda: accepted when the list is empty or the major version lies in an entry.
  struct CapabilityRange {
    int min_major = 0;
    int max_major = 0;  // inclusive
    friend bool operator==(const CapabilityRange&, const CapabilityRange&) = default;
  };
  std::vector<CapabilityRange> capabilities;
  bool unknown_capability = false;  // cuda: accepted as well while the capability is unknown
  std::vector<std::string> archs;   // rocm: accepted when empty or listed
  std::string cpu_vendor;           // empty: any
  int min_cpu_family = 0;           // of that vendor, where the platform knows its family; 0: any
  int min_cpu_model = 0;            // within min_cpu_family
  IsaSet isa;                       // cpu: all are needed
  std::vector<DType> dtypes;
  std::vector<MlaDims> dims;  // empty: any
  // Where dims is empty: every dimension lies in 0..max_head_dim, v_head_dim and the sum of the
  // other two are at least 1. 0: no bound.
  std::int64_t max_head_dim = 0;
  friend bool operator==(const Requirements&, const Requirements&) = default;
};

struct Row {
  std::string backend;      // "CPU"
  std::string variant;      // "avx2"; empty where the backend has only one row
  std::string description;  // one line for people: the library and where it comes from
  Requirements needs;
  std::string dependency_hint;  // the text of dependency_missing where it is not the usual one
  // What the loader said where the library behind the row cannot be used on this machine; an empty
  // answer, or no function: it can. Asked only about platforms that are not simulated, possibly
  // from several threads at once.
  std::function<std::string()> probe_library;
  // What runs; null for rows that are described here and run elsewhere.
  std::shared_ptr<const attention::Implementation> implementation;

  // "CPU:avx2", "FLASH_ATTN"
  MLA_API std::string full_name() const;
};

class Registry;
// A fresh registry with the built-in rows only.
MLA_API std::unique_ptr<Registry> make_builtin_registry();

// Thread-safe. Every change gives the registry a new generation.
class MLA_API Registry {
 public:
  // Without rows but for the unregistered CUSTOM.
  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // All rows in order of registration, variants best first; an overridden backend shows its
  // override.
  std::vector<Row> rows() const;
  // Backend names in order of registration, CUSTOM included.
  std::vector<std::string> names() const;
  // The rows of "NAME" (variants best first) or the one of "NAME:variant". kUnknownName lists the
  // valid names; kUnregistered: CUSTOM before it was registered. Names are case-sensitive.
  Result<std::vector<Row>> find(std::string_view name) const;

  // Adds a row: of a new name, a further variant of a name that add() made, or CUSTOM. Added rows
  // are chosen when asked for by name; the automatic order has the built-in names only.
  // kAlreadyRegistered says how to override; kInvalidName: name or variant is not an identifier.
  Status add(Row row);
  // Puts the row, under this name, in the place of all rows of an existing name until cleared;
  // CUSTOM too. kUnknownName, kInvalidName (its variant).
  Status override_backend(std::string_view name, Row row);
  // Without an override it changes nothing. kUnknownName.
  Status clear_override(std::string_view name);
  // kUnknownName.
  Result<bool> is_overridden(std::string_view name) const;

  // Another number after every change, and never that of another registry.
  std::uint64_t generation() const;
  // rows() without a copy: what was registered when it was asked for. Keep the pointer while rows
  // are in use; `for (const Row& row : *registry.snapshot())` does not.
  std::shared_ptr<const std::vector<Row>> snapshot() const;

 private:
  friend MLA_API std::unique_ptr<Registry> make_builtin_registry();
  struct State;
  std::unique_ptr<State> state_;
};

// The process's registry: the built-in rows and what was added since.
MLA_API Registry& default_registry();
// The built-in table.
MLA_API const std::vector<Row>& builtin_rows();

// The row of a plug-in library (mla/plugin.h), to be added or to override with. kNotLoadable says
// what is wrong with the library. It stays loaded while a copy of the row lives.
MLA_API Result<Row> plugin_row(const std::string& path);
// The same, added; the name under which it can be asked for. Also add()'s errors.
MLA_API Result<std::string> load_plugin(const std::string& path,
                                        Registry& registry = default_registry());

// The message of a lookup that failed: what is wrong with the name, the valid ones, and the one
// that was probably meant.
MLA_API Error unknown_name_error(std::string_view name, const Registry& registry);

}  // namespace mla
