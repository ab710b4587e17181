// A row is asked for explicitly, with a problem of its own: what is left as a reason is the
// machine's.
#include "rows.h"

#include <algorithm>

namespace mla::cli {
namespace {

template <class T>
bool has(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

Problem problem_for(const Requirements& needs) {
  Problem problem;
  problem.dims = needs.dims.empty() ? MlaDims{128, 64, 128} : needs.dims.front();
  if (!needs.dtypes.empty() && !has(needs.dtypes, problem.dtype)) {
    problem.dtype = needs.dtypes.front();
  }
  return problem;
}

Platform platform_for(const Requirements& needs) {
  const Platform here = this_platform();
  const bool cpu_row = has(needs.devices, DeviceKind::kCpu) && !has(needs.devices, here.kind);
  return cpu_row ? this_cpu_platform() : here;
}

}  // namespace

std::string RowHere::why_not() const {
  if (runs()) return "";
  if (fits) return "fits this machine, but its own library runs it, not libmla";
  std::string text;
  for (const Reason& reason : reasons) {
    if (!text.empty()) text += "; ";
    text += reason.text;
  }
  return text;
}

RowHere look_at(const Row& row, const Registry& registry) {
  RowHere here{row, problem_for(row.needs), platform_for(row.needs), false, {}};
  Policy policy;
  policy.backend = row.full_name();
  const Selection selection = select_uncached(here.problem, here.platform, policy, registry);
  here.fits = selection.ok();
  for (const Rejected& rejected : selection.rejected) {
    if (rejected.backend == row.backend && rejected.variant == row.variant) {
      here.reasons = rejected.reasons;
    }
  }
  return here;
}

std::vector<RowHere> rows_here(const Registry& registry) {
  std::vector<RowHere> all;
  for (const Row& row : registry.rows()) all.push_back(look_at(row, registry));
  return all;
}

Result<std::vector<RowHere>> rows_here(const std::string& backend, const Registry& registry) {
  if (backend.empty() || backend == "all") return rows_here(registry);
  Result<std::vector<Row>> rows = registry.find(backend);
  if (!rows) {  // as a selection would say it
    Error error = rows.error();
    if (error.code == ErrorCode::kUnknownName) error.code = ErrorCode::kUnknownBackend;
    return error;
  }
  std::vector<RowHere> found;
  for (const Row& row : *rows) found.push_back(look_at(row, registry));
  return found;
}

}  // namespace mla::cli
