// cpuid, xgetbv, arch_prctl, getauxval, sched_getaffinity, OpenMP's places.
#include "platform/host.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "platform/arm64.h"
#include "platform/text_file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(MLA_HAVE_OPENMP)
#include <omp.h>
#endif

namespace mla::platform {

#if defined(__x86_64__)
namespace {

CpuidLeaf cpuid(unsigned leaf, unsigned subleaf = 0) {
  CpuidLeaf out{};
  if (static_cast<unsigned>(__get_cpuid_max(leaf & 0x80000000u, nullptr)) < leaf) return out;
  __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]);
  return out;
}

std::uint64_t xgetbv0() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

// Linux gives the tile registers (state 18) only to a process that asked; the grant is for all its
// threads. A kernel that does not know the request refuses it, and then also saves no tiles.
std::uint64_t request_amx_permission() {
#if defined(__linux__)
  constexpr long kArchGetXcompPerm = 0x1022;
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kTileData = 18;
  syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData);
  unsigned long permission = 0;
  if (syscall(SYS_arch_prctl, kArchGetXcompPerm, &permission) != 0) return 0;
  return permission;
#else
  return 0;
#endif
}

std::vector<CpuidLeaf> cache_leaves(bool amd) {
  std::vector<CpuidLeaf> leaves;
  constexpr unsigned kMostCaches = 16;
  for (unsigned subleaf = 0; subleaf < kMostCaches; ++subleaf) {
    const CpuidLeaf leaf = cpuid(amd ? 0x8000001du : 4u, subleaf);
    if ((leaf[0] & 0x1f) == 0) break;
    leaves.push_back(leaf);
  }
  return leaves;
}

}  // namespace

CpuFacts host_cpu() {
  constexpr std::uint32_t kOsxsave = 1u << 27;  // leaf 1 ecx
  constexpr std::uint32_t kAmxTile = 1u << 24;  // leaf 7 edx
  constexpr std::uint32_t kAuth = 0x68747541;   // "Auth" of AuthenticAMD
  X86Registers registers;
  registers.leaf0 = cpuid(0);
  registers.leaf1 = cpuid(1);
  registers.leaf7 = cpuid(7);
  if (registers.leaf7[0] >= 1) registers.leaf7_1 = cpuid(7, 1);
  for (unsigned i = 0; i < registers.brand.size(); ++i) registers.brand[i] = cpuid(0x80000002u + i);
  registers.caches = cache_leaves(registers.leaf0[1] == kAuth);
  if ((registers.leaf1[2] & kOsxsave) != 0) registers.xcr0 = xgetbv0();
  if ((registers.leaf7[3] & kAmxTile) != 0) {
    registers.xcomp_permission = request_amx_permission();
  }
  return decode_x86(registers);
}

#elif defined(__aarch64__) && defined(__linux__)

CpuFacts host_cpu() {
  constexpr int kAtHwcap2 = 26;
  Arm64Registers registers;
  registers.hwcap = getauxval(AT_HWCAP);
  registers.hwcap2 = getauxval(kAtHwcap2);
  const auto midr = read_text(
      "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");  // "0x00000000413fd0c1"
  if (midr) registers.midr = std::strtoull(midr->c_str(), nullptr, 16);
  return decode_arm64(registers);
}

#else

CpuFacts host_cpu() { return {}; }

#endif

int affinity_mask_cpus() {
#if defined(__linux__)
  // The kernel refuses a mask that is too small for the machine; 1024 CPUs a step.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* mask = CPU_ALLOC(cpus);
    if (mask == nullptr) return 0;
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool ok = sched_getaffinity(0, bytes, mask) == 0;
    const int count = ok ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (ok) return count;
  }
#endif
  return 0;
}

int openmp_place_cpus() {
#if defined(MLA_HAVE_OPENMP)
  if (omp_get_proc_bind() == omp_proc_bind_false) return 0;
  std::vector<int> cpus;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> more(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, more.data());
    cpus.insert(cpus.end(), more.begin(), more.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return static_cast<int>(std::unique(cpus.begin(), cpus.end()) - cpus.begin());
#else
  return 0;
#endif
}

int host_affinity() { return std::max(affinity_mask_cpus(), openmp_place_cpus()); }

}  // namespace mla::platform
