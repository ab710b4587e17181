// The registry: an immutable list of rows that every change replaces, so that readers hold what
// they were given and never wait for a writer.
#include "mla/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>

namespace mla {
namespace {

constexpr std::string_view kCustom = "CUSTOM";
using Rows = std::vector<Row>;

bool is_identifier_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_identifier(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, is_identifier_part);
}

Status check_variant(const Row& row) {
  if (std::ranges::all_of(row.variant, is_identifier_part)) return {};
  return Error{ErrorCode::kInvalidName, "variant",
               fmt::format("variant '{}' of {} is not an identifier", row.variant, row.backend)};
}

// Generations of all registries of the process come from one counter.
std::uint64_t next_generation() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}

Error unknown(std::string_view name, const std::vector<std::string>& names) {
  return {ErrorCode::kUnknownName, "name",
          fmt::format("no backend is named '{}'; valid names: {}", name, fmt::join(names, ", "))};
}

}  // namespace

std::string Row::full_name() const { return variant.empty() ? backend : backend + ":" + variant; }

struct Registry::State {
  mutable std::mutex mutex;
  Rows own;                              // built in and added, in order
  std::map<std::string, Row> overrides;  // by backend name
  std::vector<std::string> names;        // in order, CUSTOM included
  std::vector<std::string> built_in;     // names that add() may not extend
  std::shared_ptr<const Rows> visible = std::make_shared<const Rows>();
  std::atomic<std::uint64_t> generation{next_generation()};

  bool has_name(std::string_view name) const {
    return std::ranges::find(names, name) != names.end();
  }

  // Makes `visible` from the rest. With the mutex held.
  void publish() {
    auto rows = std::make_shared<Rows>();
    for (const std::string& name : names) {
      if (const auto found = overrides.find(name); found != overrides.end()) {
        rows->push_back(found->second);
        continue;
      }
      std::ranges::copy_if(own, std::back_inserter(*rows),
                           [&](const Row& row) { return row.backend == name; });
    }
    visible = std::move(rows);
    generation.store(next_generation(), std::memory_order_release);
  }
};

Registry::Registry() : state_(std::make_unique<State>()) { state_->names.emplace_back(kCustom); }

Registry::~Registry() = default;

std::shared_ptr<const std::vector<Row>> Registry::snapshot() const {
  const std::lock_guard lock(state_->mutex);
  return state_->visible;
}

std::vector<Row> Registry::rows() const { return *snapshot(); }

std::vector<std::string> Registry::names() const {
  const std::lock_guard lock(state_->mutex);
  return state_->names;
}

std::uint64_t Registry::generation() const {
  return state_->generation.load(std::memory_order_acquire);
}

Result<std::vector<Row>> Registry::find(std::string_view name) const {
  const std::size_t colon = name.find(':');
  const std::string_view backend = name.substr(0, colon);
  Rows found;
  const auto rows = snapshot();
  for (const Row& row : *rows) {
    if (row.backend != backend) continue;
    if (colon != std::string_view::npos && row.full_name() != name) continue;
    found.push_back(row);
  }
  if (!found.empty()) return found;
  if (name == kCustom) {
    return Error{ErrorCode::kUnregistered, "name",
                 fmt::format("CUSTOM must be registered before use, by add or override_backend; "
                             "valid names: {}",
                             fmt::join(names(), ", "))};
  }
  return unknown_name_error(name, *this);
}

Status Registry::add(Row row) {
  if (!is_identifier(row.backend)) {
    return Error{ErrorCode::kInvalidName, "backend",
                 fmt::format("backend name '{}' is not an identifier", row.backend)};
  }
  if (Status status = check_variant(row); !status) return status;
  const std::lock_guard lock(state_->mutex);
  const bool built_in = std::ranges::find(state_->built_in, row.backend) != state_->built_in.end();
  const bool same_row = std::ranges::any_of(
      state_->own, [&](const Row& own) { return own.full_name() == row.full_name(); });
  if (built_in || same_row || state_->overrides.contains(row.backend)) {
    return Error{ErrorCode::kAlreadyRegistered, "backend",
                 fmt::format("{} is already registered; override_backend(\"{}\", row) replaces it",
                             row.full_name(), row.backend)};
  }
  if (!state_->has_name(row.backend)) state_->names.push_back(row.backend);
  state_->own.push_back(std::move(row));
  state_->publish();
  return {};
}

Status Registry::override_backend(std::string_view name, Row row) {
  if (Status status = check_variant(row); !status) return status;
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_name(name)) return unknown(name, state_->names);
  row.backend = name;
  state_->overrides.insert_or_assign(std::string(name), std::move(row));
  state_->publish();
  return {};
}

Status Registry::clear_override(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_name(name)) return unknown(name, state_->names);
  if (state_->overrides.erase(std::string(name)) > 0) state_->publish();
  return {};
}

Result<bool> Registry::is_overridden(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_name(name)) return unknown(name, state_->names);
  return state_->overrides.contains(std::string(name));
}

std::unique_ptr<Registry> make_builtin_registry() {
  auto registry = std::make_unique<Registry>();
  Registry::State& state = *registry->state_;
  state.names.clear();
  for (const Row& row : builtin_rows()) {
    if (!state.has_name(row.backend)) state.names.push_back(row.backend);
    state.own.push_back(row);
  }
  state.built_in = state.names;
  state.names.emplace_back(kCustom);
  state.publish();
  return registry;
}

Registry& default_registry() {
  // Never destroyed: other static objects may use it while the process ends.
  static Registry& registry = *make_builtin_registry().release();
  return registry;
}

Error unknown_name_error(std::string_view name, const Registry& registry) {
  const std::string_view backend = name.substr(0, name.find(':'));
  std::vector<std::string> variants;
  const auto rows = registry.snapshot();
  for (const Row& row : *rows) {
    if (row.backend == backend && !row.variant.empty()) variants.push_back(row.full_name());
  }
  if (!variants.empty()) {
    return {ErrorCode::kUnknownName, "name",
            fmt::format("{} has no variant '{}'; valid names: {}, {}", backend,
                        name.substr(std::min(name.size(), backend.size() + 1)), backend,
                        fmt::join(variants, ", "))};
  }
  const std::vector<std::string> names = registry.names();
  Error error = unknown(name, names);
  const auto same_letters = [&](const std::string& other) {
    return std::ranges::equal(
        other, backend, {}, [](unsigned char c) { return std::toupper(c); },
        [](unsigned char c) { return std::toupper(c); });
  };
  if (const auto meant = std::ranges::find_if(names, same_letters);
      meant != names.end() && *meant != backend) {
    error.message += fmt::format(" (names are case-sensitive: {} was meant?)", *meant);
  }
  return error;
}

}  // namespace mla
