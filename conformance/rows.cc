// A registry's rows as subjects. Whether this machine can run one is the selector's answer to an
// explicit wish for it, so that a check and a selection never disagree.
#include "conformance.h"
#include "mla/selector.h"

namespace mla::conformance {
namespace {

std::string reason_of(const Row& row, const Registry& registry, const Platform& platform) {
  if (row.implementation == nullptr) return "described here, run by its own library";
  Problem problem;
  problem.dtype = row.needs.dtypes.empty() ? DType::kBFloat16 : row.needs.dtypes.front();
  problem.dims = row.needs.dims.empty() ? MlaDims{128, 64, 128} : row.needs.dims.front();
  Policy policy;
  policy.backend = row.full_name();
  const Selection selection = select_uncached(problem, platform, policy, registry);
  if (selection.ok()) return "";
  std::string text;
  for (const Rejected& rejected : selection.rejected) {
    for (const Reason& reason : rejected.reasons) {
      text += (text.empty() ? "" : "; ") + reason.text;
    }
  }
  return text.empty() ? selection.error->message : text;
}

}  // namespace

std::vector<Candidate> candidates(const Registry& registry, const Platform& platform) {
  std::vector<Candidate> all;
  for (Row& row : registry.rows()) {
    Candidate candidate;
    candidate.cannot_run = reason_of(row, registry, platform);
    candidate.subject = {row.full_name(), row.implementation.get(), row.needs.dtypes,
                         row.needs.dims};
    candidate.row = std::move(row);
    all.push_back(std::move(candidate));
  }
  return all;
}

}  // namespace mla::conformance
