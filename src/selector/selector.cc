// The choice in default mode: validate the candidates in order, keep every reason, take the first
// row that has none.
#include <fmt/format.h>

#include <algorithm>

#include "selector/compat.h"
#include "selector/log_lines.h"
#include "selector/priority.h"
#include "selector/validate.h"

namespace mla {
namespace {

using Rows = std::vector<Row>;

bool known_capability(const Platform& platform) {
  switch (platform.kind) {
    case DeviceKind::kCuda:
      return platform.capability.has_value();
    case DeviceKind::kRocm:
      return platform.capability.has_value() || !platform.arch.empty();
    case DeviceKind::kCpu:
      return true;
  }
  return true;
}

bool was_considered(const Selection& selection, const Row& row) {
  return std::ranges::any_of(selection.rejected, [&](const Rejected& rejected) {
    return rejected.backend == row.backend && rejected.variant == row.variant;
  });
}

// Takes the row when nothing speaks against it, else keeps the reasons.
bool consider(const Row& row, const Question& question, Selection& selection) {
  std::vector<Reason> reasons = validate(row, question);
  if (!reasons.empty()) {
    selection.rejected.push_back({row.backend, row.variant, std::move(reasons)});
    return false;
  }
  selection.backend = row.backend;
  selection.variant = row.variant;
  return true;
}

bool consider_named(std::string_view backend, const Rows& rows, const Question& question,
                    Selection& selection) {
  const std::size_t colon = backend.find(':');
  for (const Row& row : rows) {
    if (row.backend != backend.substr(0, colon)) continue;
    if (colon != std::string_view::npos && row.variant != backend.substr(colon + 1)) continue;
    if (consider(row, question, selection)) return true;
  }
  return false;
}

bool consider_in_order(const Rows& rows, const Question& question, Selection& selection) {
  for (std::string_view backend : priority(question.platform, question.problem.dims)) {
    for (const Row& row : rows) {
      if (row.backend != backend || was_considered(selection, row)) continue;
      if (consider(row, question, selection)) return true;
    }
  }
  return false;
}

bool has_row(std::string_view name, const Rows& rows) {
  const std::size_t colon = name.find(':');
  return std::ranges::any_of(rows, [&](const Row& row) {
    if (row.backend != name.substr(0, colon)) return false;
    return colon == std::string_view::npos ||
           (!row.variant.empty() && row.variant == name.substr(colon + 1));
  });
}

// The platform in a message; a CPU's instruction sets would bury the rest.
std::string short_name(const Platform& platform) {
  if (platform.kind != DeviceKind::kCpu) return to_string(platform);
  return platform.cpu.vendor.empty() ? "cpu" : fmt::format("cpu ({})", platform.cpu.vendor);
}

Error no_choice(const Question& question, const Selection& selection, bool is_explicit) {
  std::string message =
      fmt::format("{} for {}, dtype {}, {}",
                  is_explicit ? question.policy.backend + " is not valid" : "no backend is valid",
                  short_name(question.platform), name(question.problem.dtype),
                  to_string(question.problem.dims));
  const char* separator = ": ";
  for (const Rejected& rejected : selection.rejected) {
    for (const Reason& reason : rejected.reasons) {
      const bool first = &reason == &rejected.reasons.front();
      message += fmt::format("{}{}{}", first ? separator : ", ",
                             first ? rejected.full_name() + ": " : "", reason.text);
    }
    separator = "; ";
  }
  return {is_explicit ? ErrorCode::kExplicitInvalid : ErrorCode::kNoneValid, "backend",
          std::move(message)};
}

void add_log_lines(const Question& question, Selection& selection) {
  if (!selection.rejected.empty()) {
    selection.log.push_back(rejected_line(question.problem, selection.rejected));
  }
  if (!selection.ok()) return;
  if (!selection.note.empty() && selection.backend == "FLASH_ATTN") {
    selection.log.push_back(capability_line());
  }
  selection.log.push_back(using_line(selection.full_name()));
}

Selection select_default(const Question& question, const Registry& registry) {
  Selection selection;
  const auto rows = registry.snapshot();
  const std::string& wanted = question.policy.backend;
  if (!wanted.empty() && !has_row(wanted, *rows)) {
    Result<Rows> found = registry.find(wanted);
    // A row that appeared in this moment belongs to the next generation.
    selection.error = found ? unknown_name_error(wanted, registry) : found.error();
    selection.error->code = ErrorCode::kUnknownBackend;
    selection.error->field = "backend";
    return selection;
  }
  selection.is_explicit = !wanted.empty();
  bool chosen = selection.is_explicit && consider_named(wanted, *rows, question, selection);
  if (!chosen && (!selection.is_explicit || question.policy.fallback)) {
    selection.fallback = selection.is_explicit;
    selection.is_explicit = false;
    chosen = consider_in_order(*rows, question, selection);
  }
  if (!chosen) {
    selection.error = no_choice(question, selection, selection.is_explicit);
  } else if (!known_capability(question.platform)) {
    selection.note = kCapabilityUnknownNote;
  }
  add_log_lines(question, selection);
  return selection;
}

std::string joined(const std::string& backend, const std::string& variant) {
  return variant.empty() ? backend : backend + ":" + variant;
}

}  // namespace

std::string_view name(ReasonCode code) {
  switch (code) {
    case ReasonCode::kPlatformUnsupported:
      return "platform_unsupported";
    case ReasonCode::kDisabled:
      return "disabled";
    case ReasonCode::kNotLoadable:
      return "not_loadable";
    case ReasonCode::kCapabilityUnknown:
      return "capability_unknown";
    case ReasonCode::kCapabilityUnsupported:
      return "capability_unsupported";
    case ReasonCode::kIsaMissing:
      return "isa_missing";
    case ReasonCode::kDtypeUnsupported:
      return "dtype_unsupported";
    case ReasonCode::kDependencyMissing:
      return "dependency_missing";
    case ReasonCode::kDimensionsUnsupported:
      return "dimensions_unsupported";
  }
  return "invalid";
}

std::string Rejected::full_name() const { return joined(backend, variant); }
std::string Selection::full_name() const { return joined(backend, variant); }

Selection select_uncached(const Problem& problem, const Platform& platform, const Policy& policy,
                          const Registry& registry) {
  const Question question{problem, platform, policy};
  return policy.compat == Compat::kVllm ? select_compat(question, registry)
                                        : select_default(question, registry);
}

void report(const Selection& selection) {
  for (const LogLine& line : selection.log) log_once(line.level, line.text);
}

Result<Row> selected_row(const Selection& selection, const Registry& registry) {
  if (selection.error) return *selection.error;
  const auto rows = registry.snapshot();
  for (const Row& row : *rows) {
    if (row.backend == selection.backend && row.variant == selection.variant) return row;
  }
  return Error{ErrorCode::kUnregistered, "backend",
               fmt::format("the registry has no row {} for this platform", selection.full_name())};
}

}  // namespace mla
