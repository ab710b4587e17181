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
  // cuda: accepted when the list is empty or an entry matches. A missing minor matches any.
  struct CapabilityRange {
    int min_major = 0;
    int max_major = 0;  // inclusive
    friend bool operator==(const CapabilityRange&, const CapabilityRange&) = default;
  };
  std::vector<CapabilityRange> capabilities;
  std::vector<std::string> archs;  // rocm: accepted when empty or listed
  std::string cpu_vendor;          // empty: any
  int min_cpu_family = 0;          // of that vendor, where the family is known; 0: any
  IsaSet isa;                      // all are needed
  std::vector<DType> dtypes;
  std::vector<MlaDims> dims;  // empty: any with each dim in 1..1024 (rope and nope may be 0)
  friend bool operator==(const Requirements&, const Requirements&) = default;
};

struct Row {
  std::string backend;      // "CPU"
  std::string variant;      // "avx2"; empty where the backend has only one row
  std::string description;  // one line for people: the library and where it comes from
  Requirements needs;
  std::string dependency_hint;  // the text of dependency_missing where it is not the usual one
  // Reasons of the machine itself why the library behind the row cannot be used: what the loader
  // said. Empty function or empty answer: none. Called only for platforms that are not simulated.
  std::function<std::string()> probe_library;
  // What runs; null for rows that are described here and run elsewhere.
  std::shared_ptr<const attention::Implementation> implementation;

  // "CPU:avx2", "FLASH_ATTN"
  std::string full_name() const;
};

// Thread-safe. Every change gives the registry a new generation.
class MLA_API Registry {
 public:
  // Empty; builtin_registry() has the built-in rows.
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

  // Adds a row (a further variant of a name added by add is a further row). kAlreadyRegistered for
  // a built-in name says how to override; kInvalidName: not an identifier.
  Status add(Row row);
  // Puts the row in the place of all rows of an existing name, until cleared. kUnknownName.
  Status override_backend(std::string_view name, Row row);
  Status clear_override(std::string_view name);
  Result<bool> is_overridden(std::string_view name) const;

  std::uint64_t generation() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The process's registry: the built-in rows and what was added since.
MLA_API Registry& default_registry();

}  // namespace mla
