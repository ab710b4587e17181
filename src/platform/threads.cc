// Usable threads. cgroups: Linux Documentation/admin-guide/cgroup-v2.rst, "CPU Interface Files",
// and Documentation/scheduler/sched-bwc.rst for v1.
#include "platform/threads.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "platform/text_file.h"

namespace mla::platform {
namespace {

// "150000 100000" -> 1.5; "max 100000" -> none.
std::optional<double> quota_v2(const std::string& folder) {
  const auto text = read_text(folder + "/cpu.max");
  if (!text) return std::nullopt;
  const std::size_t space = text->find(' ');
  const auto quota = parse_number(std::string_view(*text).substr(0, space));
  const auto period = space == std::string::npos
                          ? std::optional<std::int64_t>(100000)
                          : parse_number(std::string_view(*text).substr(space + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// A quota of -1 is none.
std::optional<double> quota_v1(const std::string& folder) {
  const auto quota = parse_number(read_text(folder + "/cpu.cfs_quota_us").value_or(""));
  const auto period = parse_number(read_text(folder + "/cpu.cfs_period_us").value_or(""));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

using QuotaOf = std::optional<double> (*)(const std::string& folder);

// The least quota from `path` up to the mount. In a container the path of the host may not be
// there: the walk then meets only the folders that are.
std::optional<double> least_quota(const std::string& mount, std::string path, QuotaOf quota_of) {
  std::optional<double> least;
  while (true) {
    const auto quota = quota_of(mount + path);
    if (quota && (!least || *quota < *least)) least = quota;
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

bool lists_cpu(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

int online_cpus(const std::string& root) {
  // "0-3,8,10-11"
  std::istringstream ranges(read_text(root + "/sys/devices/system/cpu/online").value_or(""));
  std::int64_t count = 0;
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const auto first = parse_number(std::string_view(range).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : parse_number(std::string_view(range).substr(dash + 1));
    if (!first || !last || *last < *first) return 0;
    count += *last - *first + 1;
  }
  return static_cast<int>(count);
}

std::optional<double> cgroup_cpu_quota(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::istringstream lines(read_text(root + "/proc/self/cgroup").value_or(""));
  std::optional<double> least;
  // "<id>:<controllers>:<path>"; the line of v2 is "0::<path>".
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    std::optional<double> quota;
    if (controllers.empty()) {
      quota = least_quota(mount, path, quota_v2);
    } else if (lists_cpu(controllers)) {
      quota = least_quota(mount + "/" + controllers, path, quota_v1);
      if (!quota) quota = least_quota(mount + "/cpu", path, quota_v1);
    }
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

UsableThreads usable_threads(int logical, int affinity, std::optional<double> quota) {
  UsableThreads usable;
  usable.count = std::max(1, affinity > 0 ? affinity : logical);
  if (affinity > 0 && affinity < logical) usable.limited_by = "affinity";
  if (quota && *quota < usable.count) {
    char text[48];
    std::snprintf(text, sizeof text, "cgroup quota %.2f", *quota);
    usable.limited_by = text;
    usable.count = std::max(1, static_cast<int>(std::ceil(*quota)));
  }
  return usable;
}

}  // namespace mla::platform
