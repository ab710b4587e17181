// The reasons against a row, one function each, in the order in which they are reported.
#include "selector/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mla {
namespace {

template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::ranges::find(list, item) != list.end();
}

// What a described CPU has beside what its description says: the short form avx512, and what every
// CPU with a feature has as well. A detected CPU says everything itself.
bool implied(const IsaSet& isa, std::string_view feature) {
  const bool avx512 = contains(isa, "avx512");
  const bool avx512f = avx512 || contains(isa, "avx512f");
  if (feature == "avx512f" || feature == "avx512bw" || feature == "avx512dq" ||
      feature == "avx512vl") {
    return avx512;
  }
  if (feature == "avx2" || feature == "fma") return avx512f;
  if (feature == "f16c") return avx512f || contains(isa, "avx2");
  return false;
}

class Validator {
 public:
  Validator(const Row& row, const Question& question)
      : row_(row), needs_(row.needs), q_(question), cpu_(question.platform.cpu) {}

  std::vector<Reason> run() {
    same_kind_ = contains(needs_.devices, q_.platform.kind);
    check_platform();
    if (lists(q_.policy.disabled, row_)) add(ReasonCode::kDisabled, "disabled by the user");
    check_library();
    if (same_kind_ && q_.platform.kind == DeviceKind::kCuda) check_capability();
    if (same_kind_ && q_.platform.kind == DeviceKind::kRocm) check_arch();
    if (same_kind_ && q_.platform.kind == DeviceKind::kCpu) check_isa();
    if (!contains(needs_.dtypes, q_.problem.dtype)) {
      add(ReasonCode::kDtypeUnsupported,
          fmt::format("dtype {} not supported", name(q_.problem.dtype)));
    }
    if (lists(q_.policy.not_installed, row_)) {
      add(ReasonCode::kDependencyMissing, dependency_text(row_));
    }
    if (!accepts_dims(needs_, q_.problem.dims)) {
      add(ReasonCode::kDimensionsUnsupported, dims_text(needs_, q_.problem.dims, true));
    }
    return std::move(reasons_);
  }

 private:
  void add(ReasonCode code, std::string text) { reasons_.push_back({code, std::move(text)}); }

  void check_platform() {
    if (!same_kind_) {
      add(ReasonCode::kPlatformUnsupported,
          fmt::format("platform {} not supported", name(q_.platform.kind)));
    } else if (q_.platform.kind == DeviceKind::kCpu && !accepts_cpu(needs_, cpu_)) {
      const std::string found = cpu_.vendor.empty()                ? "of unknown vendor"
                                : cpu_.vendor != needs_.cpu_vendor ? "by " + cpu_.vendor
                                                                   : "older than the row needs";
      add(ReasonCode::kPlatformUnsupported,
          fmt::format("platform cpu not supported (needs {}, this CPU is {})", needs_.cpu_vendor,
                      found));
    }
  }

  void check_library() {
    std::string said;
    if (lists(q_.policy.unloadable, row_)) {
      said = "listed in unloadable";
    } else if (same_kind_ && !q_.platform.simulated && row_.probe_library) {
      said = row_.probe_library();
    }
    if (!said.empty()) add(ReasonCode::kNotLoadable, "library not loadable: " + said);
  }

  void check_capability() {
    if (needs_.capabilities.empty()) return;
    if (!q_.platform.capability) {
      if (!needs_.unknown_capability) capability_unknown();
    } else if (!accepts_capability(needs_, *q_.platform.capability)) {
      add(ReasonCode::kCapabilityUnsupported, capability_text(*q_.platform.capability));
    }
  }

  void check_arch() {
    if (needs_.archs.empty()) return;
    if (q_.platform.arch.empty()) {
      capability_unknown();
    } else if (!accepts_arch(needs_, q_.platform.arch)) {
      add(ReasonCode::kCapabilityUnsupported,
          fmt::format("architecture {} not supported", q_.platform.arch));
    }
  }

  void capability_unknown() {
    add(ReasonCode::kCapabilityUnknown, "device capability not available");
  }

  void check_isa() {
    const std::vector<std::string> missing = missing_isa(needs_, q_.platform);
    if (!missing.empty()) {
      add(ReasonCode::kIsaMissing, fmt::format("CPU lacks {}", fmt::join(missing, ", ")));
    }
  }

  const Row& row_;
  const Requirements& needs_;
  const Question& q_;
  const Cpu& cpu_;
  bool same_kind_ = false;
  std::vector<Reason> reasons_;
};

}  // namespace

std::vector<Reason> validate(const Row& row, const Question& question) {
  return Validator(row, question).run();
}

bool lists(const std::vector<std::string>& names, const Row& row) {
  return std::ranges::any_of(names, [&](std::string_view entry) {
    if (entry == row.backend) return true;
    // "CPU:avx2", without building the row's full name.
    return !row.variant.empty() && entry.size() == row.backend.size() + 1 + row.variant.size() &&
           entry.starts_with(row.backend) && entry[row.backend.size()] == ':' &&
           entry.ends_with(row.variant);
  });
}

bool accepts_capability(const Requirements& needs, const Capability& capability) {
  return needs.capabilities.empty() ||
         std::ranges::any_of(needs.capabilities, [&](const auto& range) {
           return range.min_major <= capability.major && capability.major <= range.max_major;
         });
}

bool accepts_arch(const Requirements& needs, std::string_view arch) {
  // The driver says "gfx942:sramecc+:xnack-".
  arch = arch.substr(0, arch.find(':'));
  return needs.archs.empty() || contains(needs.archs, arch);
}

bool accepts_dims(const Requirements& needs, const MlaDims& dims) {
  if (!needs.dims.empty()) return contains(needs.dims, dims);
  if (needs.max_head_dim == 0) return true;
  const auto in_range = [&](std::int64_t dim) { return 0 <= dim && dim <= needs.max_head_dim; };
  return in_range(dims.qk_nope_head_dim) && in_range(dims.qk_rope_head_dim) &&
         in_range(dims.v_head_dim) && dims.v_head_dim >= 1 && dims.qk_head_dim() >= 1;
}

bool accepts_cpu(const Requirements& needs, const Cpu& cpu) {
  if (needs.cpu_vendor.empty()) return true;
  if (cpu.vendor != needs.cpu_vendor) return false;
  if (cpu.family == 0 || cpu.family > needs.min_cpu_family) return true;
  return cpu.family == needs.min_cpu_family && (cpu.model == 0 || cpu.model >= needs.min_cpu_model);
}

std::vector<std::string> missing_isa(const Requirements& needs, const Platform& platform) {
  std::vector<std::string> missing;
  for (const std::string& feature : needs.isa) {
    const IsaSet& isa = platform.cpu.isa;
    if (contains(isa, feature)) continue;
    if (platform.simulated && implied(isa, feature)) continue;
    missing.push_back(feature);
  }
  return missing;
}

std::string dependency_text(const Row& row) {
  return row.dependency_hint.empty() ? "required dependencies not available" : row.dependency_hint;
}

std::string capability_text(const Capability& capability) {
  return fmt::format("compute capability {}.{} not supported", capability.major, capability.minor);
}

std::string dims_text(const Requirements& needs, const MlaDims& dims, bool with_supported) {
  std::string text =
      fmt::format("Model does not have supported MLA dimensions (got {}", to_string(dims));
  if (with_supported && !needs.dims.empty()) {
    text += "; supported: ";
    for (const MlaDims& supported : needs.dims) {
      if (&supported != &needs.dims.front()) text += ", ";
      text += to_string(supported);
    }
  } else if (with_supported) {
    text += fmt::format(
        "; supported: each at most {}, v_head_dim and qk_nope_head_dim + qk_rope_head_dim at "
        "least 1",
        needs.max_head_dim);
  }
  return text + ")";
}

}  // namespace mla
