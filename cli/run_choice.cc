// The CPU is meant when it is asked for, or when the backend asked for runs nowhere else.
#include "run_choice.h"

#include <algorithm>

namespace mla::cli {
namespace {

bool only_on_cpus(const std::string& backend) {
  const Result<std::vector<Row>> rows = default_registry().find(backend);
  return rows && std::all_of(rows->begin(), rows->end(), [](const Row& row) {
           return row.needs.devices == std::vector<DeviceKind>{DeviceKind::kCpu};
         });
}

Result<Platform> platform_for(const std::string& backend, const std::string& wanted) {
  if (wanted.empty()) {
    return !backend.empty() && only_on_cpus(backend) ? this_cpu_platform() : this_platform();
  }
  const std::optional<DeviceKind> kind = parse_device_kind(wanted);
  if (!kind) {
    return Error{ErrorCode::kInvalidArgument, "platform",
                 "--platform: got '" + wanted + "', expected cuda, rocm or cpu"};
  }
  if (*kind == DeviceKind::kCpu) return this_cpu_platform();
  if (this_platform().kind == *kind) return this_platform();
  return Error{ErrorCode::kUnsupported, "platform",
               "--platform: this machine has no " + wanted +
                   " device that its driver reports (see mla devices)"};
}

Result<RunChoice> choose(const Problem& problem, const std::string& backend,
                         const Platform& platform) {
  Policy policy;
  policy.backend = backend;
  RunChoice choice;
  choice.platform = platform;
  choice.selection = select(problem, platform, policy);
  if (!choice.selection->ok()) return *choice.selection->error;
  Result<Row> row = selected_row(*choice.selection, default_registry());
  if (!row) return row.error();
  choice.row = std::move(*row);
  return choice;
}

}  // namespace

Result<RunChoice> choose_for_run(const Problem& problem, const std::string& backend,
                                 const std::string& platform) {
  const Result<Platform> here = platform_for(backend, platform);
  if (!here) return here.error();
  Result<RunChoice> choice = choose(problem, backend, *here);
  if (!choice || choice->row.implementation != nullptr) return choice;
  const std::string name = choice->row.full_name();
  if (!backend.empty() || !platform.empty()) {
    return Error{ErrorCode::kUnsupported, "backend",
                 name +
                     " fits this machine, but it is only described here and runs in its own "
                     "library; --platform cpu runs on the CPU"};
  }
  choice = choose(problem, "", this_cpu_platform());
  if (choice) {
    choice->note = name +
                   " is the choice for this machine's GPU; it is only described here and runs in "
                   "its own library. This run is on the CPU, as with --platform cpu.";
  }
  return choice;
}

}  // namespace mla::cli
