// The choice: problem + platform + policy -> which row, and why not the others.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mla/config.h"
#include "mla/core.h"
#include "mla/platform.h"
#include "mla/registry.h"

namespace mla {

enum class ReasonCode : std::uint8_t {  // in the order in which they are reported
  kPlatformUnsupported,
  kDisabled,
  kNotLoadable,
  kCapabilityUnknown,
  kCapabilityUnsupported,
  kIsaMissing,
  kDtypeUnsupported,
  kDependencyMissing,
  kDimensionsUnsupported,
};

// "platform_unsupported", ...
MLA_API std::string_view name(ReasonCode code);

struct Reason {
  ReasonCode code = ReasonCode::kPlatformUnsupported;
  std::string text;
  friend bool operator==(const Reason&, const Reason&) = default;
};

struct Rejected {
  std::string backend;
  std::string variant;
  std::vector<Reason> reasons;            // all of them
  MLA_API std::string full_name() const;  // "CPU:avx2"
  friend bool operator==(const Rejected&, const Rejected&) = default;
};

struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string text;
  friend bool operator==(const LogLine&, const LogLine&) = default;
};

// A value: the same for the same inputs.
struct Selection {
  std::string backend;  // empty on an error
  std::string variant;
  bool is_explicit = false;
  bool fallback = false;           // an invalid explicit choice was replaced by the automatic one
  std::string note;                // "capability_unknown": chosen without it, else empty
  std::vector<Rejected> rejected;  // in the order considered; also rows refused before the winner
  std::optional<Error> error;      // kUnknownBackend, kExplicitInvalid, kNoneValid
  std::vector<LogLine> log;        // what report() says
  friend bool operator==(const Selection&, const Selection&) = default;

  bool ok() const { return !error.has_value(); }
  MLA_API std::string full_name() const;  // "CPU:avx2"
};

// No cache, no log, no look at the current machine, but for the probes of rows where the platform
// is not simulated.
MLA_API Selection select_uncached(const Problem& problem, const Platform& platform,
                                  const Policy& policy, const Registry& registry);

// The same through a thread-safe cache keyed by (platform, problem, policy, registry generation).
MLA_API std::shared_ptr<const Selection> select(const Problem& problem, const Platform& platform,
                                                const Policy& policy = {},
                                                Registry& registry = default_registry());

// Hands the selection's log lines to the log sink, once per process and text.
MLA_API void report(const Selection& selection);

// The row a selection chose. kUnregistered when it has been taken out of the registry since, or
// when compat mode chose a backend of which this platform can run no variant.
MLA_API Result<Row> selected_row(const Selection& selection, const Registry& registry);

// ---- Text faces ---------------------------------------------------------------------------------
// What a JSON request asks for (docs/selection.md has the fields). kInvalidRequest names the field.
// A request without a platform means this machine.
struct Request {
  Problem problem;
  Platform platform;
  Policy policy;
};
MLA_API Result<Request> parse_request(std::string_view json);

// One JSON request in, one JSON answer out, without line ends. Never fails: a bad request gets an
// answer with error.code invalid_request that names the field.
MLA_API std::string select_json(std::string_view request, Registry& registry = default_registry());
// The answer of select_json for a selection made otherwise, or for a request that is an error.
MLA_API std::string to_json(const Selection& selection);
MLA_API std::string to_json(const Error& error);
// Every row that was considered with all its reasons, for people.
MLA_API std::string explain(const Problem& problem, const Platform& platform, const Policy& policy,
                            const Selection& selection);

// ---- Models x platforms -------------------------------------------------------------------------
struct NamedPlatform {
  std::string name;  // "sm_90", "Intel, AMX"
  Platform platform;
};

// The platforms people ask about: `here` as "this machine", then sm_80, sm_89, sm_90, sm_100,
// sm_103, sm_120, gfx942, gfx950 and the kinds of CPU, all simulated.
MLA_API std::vector<NamedPlatform> known_platforms(const Platform& here);

struct Matrix {
  std::vector<std::string> models;
  std::vector<std::string> platforms;
  std::vector<Selection> cells;  // models.size() rows of platforms.size()

  const Selection& at(std::size_t model, std::size_t platform) const {
    return cells[model * platforms.size() + platform];
  }
};

MLA_API Matrix matrix(const std::vector<NamedModel>& models,
                      const std::vector<NamedPlatform>& platforms, const Policy& policy = {},
                      Registry& registry = default_registry());
// {"platforms": [...], "models": [{"name", "cells": [answers of select_json]}]}
MLA_API std::string to_json(const Matrix& matrix);

}  // namespace mla
