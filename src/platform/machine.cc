// This machine, put together from what the CPU, the OS and the drivers say.
#include <algorithm>
#include <utility>

#include "mla/platform.h"
#include "platform/caches.h"
#include "platform/driver.h"
#include "platform/host.h"
#include "platform/threads.h"

namespace mla {
namespace {

using platform::CpuFacts;

// Apart from the machine: who asks for the CPU only must not start a GPU driver.
const CpuFacts& this_cpu() {
  // Never destroyed: it may be asked while the process's other objects are.
  static const CpuFacts& facts = *new CpuFacts(platform::host_cpu());
  return facts;
}

Machine detect() {
  Machine machine;
  const CpuFacts& facts = this_cpu();
  machine.cpu = facts.cpu;
  machine.cpu_name = facts.name;
  machine.isa_refused = facts.refused;
  machine.caches = platform::sysfs_caches("");
  if (machine.caches.l1d == 0) machine.caches.l1d = facts.caches.l1d;
  if (machine.caches.l2 == 0) machine.caches.l2 = facts.caches.l2;
  if (machine.caches.l3 == 0) machine.caches.l3 = facts.caches.l3;

  const int affinity = platform::host_affinity();
  machine.logical_cpus = std::max(platform::online_cpus(""), affinity);
  auto usable =
      platform::usable_threads(machine.logical_cpus, affinity, platform::cgroup_cpu_quota(""));
  machine.usable_threads = usable.count;
  machine.threads_limited_by = std::move(usable.limited_by);

  for (auto answer : {platform::query_cuda(), platform::query_rocm()}) {
    machine.drivers.push_back(std::move(answer.report));
    for (GpuDevice& gpu : answer.devices) machine.gpus.push_back(std::move(gpu));
  }
  return machine;
}

}  // namespace

const Machine& this_machine() {
  static const Machine& machine = *new Machine(detect());
  return machine;
}

Platform this_platform() {
  const Machine& machine = this_machine();
  if (machine.gpus.empty()) return this_cpu_platform();
  const GpuDevice& gpu = machine.gpus.front();
  Platform platform;
  platform.kind = gpu.kind;
  platform.capability = gpu.capability;
  platform.arch = gpu.arch;
  return platform;
}

Platform this_cpu_platform() {
  Platform platform;
  platform.cpu = this_cpu().cpu;
  return platform;
}

}  // namespace mla
