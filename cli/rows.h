// The registry's rows as seen from this machine: which can run here, and why the others cannot.
#pragma once

#include <string>
#include <vector>

#include "mla/registry.h"
#include "mla/selector.h"

namespace mla::cli {

struct RowHere {
  Row row;
  Problem problem;              // one that the row takes, where there is any
  Platform platform;            // this machine's GPU or CPU, whichever the row is for
  bool fits = false;            // nothing of this machine speaks against it
  std::vector<Reason> reasons;  // where it does not fit

  // Fits, and libmla itself can run it.
  bool runs() const { return fits && row.implementation != nullptr; }
  // One text for people; empty where it runs.
  std::string why_not() const;
};

RowHere look_at(const Row& row, const Registry& registry);
// Every row in order of registration.
std::vector<RowHere> rows_here(const Registry& registry);
// Those of "NAME", "NAME:variant" or "all" (also empty).
Result<std::vector<RowHere>> rows_here(const std::string& backend, const Registry& registry);

}  // namespace mla::cli
