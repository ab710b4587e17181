// How many threads are worth starting: the affinity mask and the cgroup's CPU quota, read below a
// root folder ("" is this machine) so that tests bring a tree of their own.
#pragma once

#include <optional>
#include <string>

namespace mla::platform {

struct UsableThreads {
  int count = 1;
  std::string limited_by;  // as Machine::threads_limited_by
};

// CPUs that are online, from <root>/sys/devices/system/cpu/online; 0: unknown.
int online_cpus(const std::string& root);

// CPUs' worth of time the process's cgroup may use, the least of all its ancestors; none: no limit.
// Reads <root>/proc/self/cgroup and, for v2, cpu.max, for v1, cpu.cfs_quota_us, under
// <root>/sys/fs/cgroup.
std::optional<double> cgroup_cpu_quota(const std::string& root);

// `affinity` is the number of CPUs in the mask, `logical` the machine's; 0: unknown. A quota that
// is no whole number is rounded up: its last part of a CPU is used rather than lost.
UsableThreads usable_threads(int logical, int affinity, std::optional<double> quota);

}  // namespace mla::platform
