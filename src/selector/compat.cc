// vLLM 0.32's outcome, with what its users have reported: on a CPU and with an unknown capability
// the explicit choice, dtype and dimensions are ignored, and a backend is never refused for its
// platform. Source: vllm/v1/attention/backends/mla/prefill/{selector,base,registry}.py and
// vllm/platforms/{interface,rocm,cpu}.py (Apache-2.0). Policy::disabled and fallback do not exist
// there.
#include "selector/compat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "selector/log_lines.h"
#include "selector/priority.h"

namespace mla {
namespace {

using Rows = std::vector<Row>;
constexpr std::string_view kFlashAttn = "FLASH_ATTN";

// Upstream has no variants: all rows of a backend ask for the same there.
const Row* first_row(std::string_view backend, const Rows& rows) {
  const auto row = std::ranges::find(rows, backend, &Row::backend);
  return row == rows.end() ? nullptr : &*row;
}

bool loads(const Row& row, const Question& question) {
  if (lists(question.policy.unloadable, row)) return false;
  if (question.platform.simulated || question.platform.kind == DeviceKind::kCpu) return true;
  return !row.probe_library || row.probe_library().empty();
}

// Upstream's supports_compute_capability: by number whatever the device, by device only for AITER,
// not at all for FLASH_ATTN.
bool supports_capability(const Row& row, const Platform& platform) {
  if (!row.needs.archs.empty()) {
    return platform.kind == DeviceKind::kRocm && !platform.arch.empty() &&
           accepts_arch(row.needs, platform.arch);
  }
  return row.needs.unknown_capability || accepts_capability(row.needs, *platform.capability);
}

bool supports_dtype(const Row& row, DType dtype) {
  return (dtype == DType::kFloat16 || dtype == DType::kBFloat16) &&
         std::ranges::find(row.needs.dtypes, dtype) != row.needs.dtypes.end();
}

bool supports_dims(const Row& row, const MlaDims& dims) {
  return row.needs.dims.empty() || accepts_dims(row.needs, dims);
}

// Upstream's validate_configuration.
std::vector<Reason> validate_compat(const Row& row, const Question& question) {
  if (!loads(row, question)) return {{ReasonCode::kNotLoadable, "ImportError"}};
  std::vector<Reason> reasons;
  if (!supports_capability(row, question.platform)) {
    reasons.push_back(
        {ReasonCode::kCapabilityUnsupported, capability_text(*question.platform.capability)});
  }
  if (!supports_dtype(row, question.problem.dtype)) {
    reasons.push_back({ReasonCode::kDtypeUnsupported,
                       fmt::format("dtype {} not supported", torch_name(question.problem.dtype))});
  }
  if (lists(question.policy.not_installed, row)) {
    reasons.push_back({ReasonCode::kDependencyMissing, dependency_text(row)});
  }
  if (!supports_dims(row, question.problem.dims)) {
    const bool with_supported = row.backend != kFlashAttn;
    reasons.push_back({ReasonCode::kDimensionsUnsupported,
                       dims_text(row.needs, question.problem.dims, with_supported)});
  }
  return reasons;
}

// Upstream chooses a backend; the variant is the best one this platform can run, if there is one.
void choose(std::string_view backend, const Rows& rows, const Question& question,
            Selection& selection) {
  selection.backend = backend;
  const Platform& platform = question.platform;
  for (const Row& row : rows) {
    if (row.backend != backend || row.variant.empty()) continue;
    if (platform.kind == DeviceKind::kCpu && accepts_cpu(row.needs, platform.cpu) &&
        missing_isa(row.needs, platform).empty()) {
      selection.variant = row.variant;
      break;
    }
  }
  selection.log.push_back(using_line(backend));
}

Selection select_cpu(const Question& question, const Rows& rows) {
  Selection selection;
  for (std::string_view backend : priority(question.platform, question.problem.dims)) {
    const Row* row = first_row(backend, rows);
    if (row == nullptr) continue;
    if (!loads(*row, question)) {
      selection.rejected.push_back({row->backend, "", {{ReasonCode::kNotLoadable, "ImportError"}}});
    } else if (lists(question.policy.not_installed, *row)) {
      selection.rejected.push_back(
          {row->backend, "", {{ReasonCode::kDependencyMissing, dependency_text(*row)}}});
    } else {
      choose(backend, rows, question, selection);
      return selection;
    }
  }
  selection.error =
      Error{ErrorCode::kNoneValid, "backend", "No valid CPU MLA prefill backend found."};
  return selection;
}

Selection select_unknown_capability(const Question& question, const Rows& rows) {
  Selection selection;
  selection.note = kCapabilityUnknownNote;
  selection.log.push_back(capability_line());
  choose(kFlashAttn, rows, question, selection);
  return selection;
}

Error unknown_backend(const std::string& wanted, const Registry& registry) {
  if (wanted == "CUSTOM") {
    return {ErrorCode::kUnknownBackend, "backend",
            "MLA prefill backend CUSTOM must be registered before use. Use "
            "register_mla_prefill_backend(MLAPrefillBackendEnum.CUSTOM, "
            "'your.module.YourClass')"};
  }
  return {ErrorCode::kUnknownBackend, "backend",
          fmt::format("Unknown MLA prefill backend: '{}'. Valid options are: {}", wanted,
                      fmt::join(registry.names(), ", "))};
}

// As Python prints a list of strings; no reason holds a quote.
std::string python_list(const std::vector<Reason>& reasons) {
  std::string text = "[";
  for (const Reason& reason : reasons) {
    text += fmt::format("{}'{}'", text.size() > 1 ? ", " : "", reason.text);
  }
  return text + "]";
}

Selection select_explicit(const Question& question, const Rows& rows, const Registry& registry) {
  Selection selection;
  const std::string& wanted = question.policy.backend;
  const Row* row = first_row(wanted, rows);
  if (row == nullptr) {
    selection.error = unknown_backend(wanted, registry);
    return selection;
  }
  selection.is_explicit = true;
  std::vector<Reason> reasons = validate_compat(*row, question);
  if (reasons.empty()) {
    choose(wanted, rows, question, selection);
    return selection;
  }
  selection.error = Error{ErrorCode::kExplicitInvalid, "backend",
                          fmt::format("Selected MLA prefill backend {} is not valid for this "
                                      "configuration. Reason: {}",
                                      wanted, python_list(reasons))};
  selection.rejected.push_back({wanted, "", std::move(reasons)});
  return selection;
}

Selection select_automatic(const Question& question, const Rows& rows) {
  Selection selection;
  for (std::string_view backend : priority(question.platform, question.problem.dims)) {
    const Row* row = first_row(backend, rows);
    if (row == nullptr) continue;
    std::vector<Reason> reasons = validate_compat(*row, question);
    if (reasons.empty()) {
      choose(backend, rows, question, selection);
      return selection;
    }
    selection.rejected.push_back({row->backend, "", std::move(reasons)});
  }
  selection.error =
      Error{ErrorCode::kNoneValid, "backend",
            fmt::format("No valid MLA prefill backend found with {}. Reasons: {}.",
                        config_text(question.problem), reasons_text(selection.rejected))};
  selection.log.push_back(rejected_line(question.problem, selection.rejected));
  return selection;
}

}  // namespace

Selection select_compat(const Question& question, const Registry& registry) {
  const auto rows = registry.snapshot();
  if (question.platform.kind == DeviceKind::kCpu) return select_cpu(question, *rows);
  if (!question.platform.capability) return select_unknown_capability(question, *rows);
  if (!question.policy.backend.empty()) return select_explicit(question, *rows, registry);
  return select_automatic(question, *rows);
}

}  // namespace mla
