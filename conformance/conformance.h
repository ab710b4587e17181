// The row contract of docs/numerics.md, proved or refuted for any attention::Implementation:
// built-in rows, rows a user registered, rows that a plug-in library brought. Uses the public
// headers only.
//
// A property is a named claim. Checking one runs batches that are made to break it and gives back
// what was measured, or the first fault with the seed and the shape that reproduce it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mla/attention.h"
#include "mla/core.h"
#include "mla/platform.h"
#include "mla/registry.h"

namespace mla::conformance {

// What is checked, and what it claims to take.
struct Subject {
  std::string name;  // "CPU:avx2"
  const attention::Implementation* implementation = nullptr;
  std::vector<DType> dtypes;  // empty: float32, float16 and bfloat16
  std::vector<MlaDims> dims;  // empty: any
};

struct Options {
  std::uint64_t seed = 20240607;
  // Random batches of the property "random".
  int random_batches = 40;
};

enum class Outcome : std::uint8_t { kPassed, kFailed, kSkipped };
std::string_view name(Outcome outcome);  // "passed", "failed", "skipped"

struct Property {
  std::string_view name;     // "masked_nan"
  std::string_view meaning;  // one line for people
};

struct Verdict {
  std::string property;
  Outcome outcome = Outcome::kPassed;
  std::int64_t batches = 0;  // that were run
  // The largest error over all batches as a share of its bound: at most 1 where it passed.
  double out_error = 0.0;
  double lse_error = 0.0;
  DType out_error_dtype = DType::kFloat32;  // of the inputs where the error was largest
  DType lse_error_dtype = DType::kFloat32;
  // What was measured; on a failure what broke, with seed and shape; when skipped the reason.
  std::string detail;
  double seconds = 0.0;
};

// In the order in which they are checked.
const std::vector<Property>& properties();

// One property, by name. kSkipped with "no such property" for a name that is not in the list.
Verdict check(std::string_view property, const Subject& subject, const Options& options = {});

using Sink = std::function<void(const Verdict&)>;
// All of them; `sink` gets each verdict as it falls. True when none failed.
bool check_all(const Subject& subject, const Options& options, const Sink& sink);

// A row of a registry as a subject, with the reason why it cannot be run here: empty when it can.
struct Candidate {
  Row row;  // keeps the implementation alive
  Subject subject;
  std::string cannot_run;
};
// Every row, in the registry's order, seen from `platform`.
std::vector<Candidate> candidates(const Registry& registry, const Platform& platform);

}  // namespace mla::conformance
