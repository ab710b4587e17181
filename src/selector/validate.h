// Checks one row against everything that is data, and collects every reason against it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mla/selector.h"

namespace mla {

// What a choice is made for.
struct Question {
  const Problem& problem;
  const Platform& platform;
  const Policy& policy;
};

// All reasons in the order of ReasonCode; empty: the row is valid.
std::vector<Reason> validate(const Row& row, const Question& question);

// Whether a list of the policy names the row or its backend.
bool lists(const std::vector<std::string>& names, const Row& row);
// Whether any of the row's capability ranges holds the major version.
bool accepts_capability(const Requirements& needs, const Capability& capability);
bool accepts_arch(const Requirements& needs, std::string_view arch);
bool accepts_dims(const Requirements& needs, const MlaDims& dims);
// Whether the platform is one whose CPU, by vendor and generation, the row asks for.
bool accepts_cpu(const Requirements& needs, const Cpu& cpu);
// The instruction sets the row needs and the platform's CPU lacks.
std::vector<std::string> missing_isa(const Requirements& needs, const Platform& platform);

// The texts both modes share.
std::string dependency_text(const Row& row);
std::string capability_text(const Capability& capability);
// "; supported: ..." only where asked for and known.
std::string dims_text(const Requirements& needs, const MlaDims& dims, bool with_supported);

}  // namespace mla
