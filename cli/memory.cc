// /proc/meminfo's MemAvailable and cgroup v2's memory.max; elsewhere the physical memory.
#include "memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace mla::cli {
namespace {

std::int64_t number_in(const char* path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : 0;  // "max" is no number
}

std::int64_t system_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(file, unit);
  }
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? std::int64_t{pages} * page : 0;
}

}  // namespace

std::int64_t available_memory() {
  const std::int64_t system = system_memory();
  const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  if (limit <= 0) return system;
  return system > 0 ? std::min(system, limit) : limit;
}

}  // namespace mla::cli
