// The machine a selection is made for: this one, detected, or one described by the caller, so that
// the choice for any fleet can be asked from a laptop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mla/core.h"

namespace mla {

enum class DeviceKind : std::uint8_t { kCuda, kRocm, kCpu };

// "cuda", "rocm", "cpu"
MLA_API std::string_view name(DeviceKind kind);
MLA_API std::optional<DeviceKind> parse_device_kind(std::string_view text);

// CUDA compute capability.
struct Capability {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const Capability&, const Capability&) = default;
};

// Instruction-set features a CPU row may ask for, by their names in /proc/cpuinfo where they have
// one: avx2, fma, f16c, avx512f, avx512bw, avx512dq, avx512vl, avx512_bf16, avx512_fp16, amx_tile,
// amx_bf16, amx_fp16, neon, bf16 (arm64), i8mm ... A description may also use the short form
// avx512, which stands for avx512f, avx512bw, avx512dq and avx512vl.
using IsaSet = std::vector<std::string>;  // sorted, without repeats

struct Cpu {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD", "ARM", ...
  int family = 0;      // 0: unknown
  int model = 0;
  IsaSet isa;  // what the CPU has and the OS lets a process use
  friend bool operator==(const Cpu&, const Cpu&) = default;
};

// What a selection depends on, and nothing else.
struct Platform {
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<Capability> capability;  // cuda and rocm; none: unknown
  std::string arch;                      // rocm: "gfx942"
  Cpu cpu;                               // of the host where kind is cpu
  bool simulated = false;  // described by the caller: every GPU library counts as there
  friend bool operator==(const Platform&, const Platform&) = default;
};

// One line: "cuda, compute capability 10.0"; "cpu, AuthenticAMD, avx2 fma f16c".
MLA_API std::string to_string(const Platform& platform);

// ---- This machine -------------------------------------------------------------------------------
struct CacheSizes {  // bytes of one instance; 0: unknown
  std::int64_t l1d = 0;
  std::int64_t l2 = 0;
  std::int64_t l3 = 0;
};

struct GpuDevice {
  DeviceKind kind = DeviceKind::kCuda;
  int index = 0;
  std::string name;
  std::optional<Capability> capability;
  std::string arch;  // rocm
  std::int64_t memory_bytes = 0;
};

// What the driver of a GPU family answered; the driver is opened at run time, never linked.
struct DriverReport {
  DeviceKind kind = DeviceKind::kCuda;
  bool present = false;
  std::string detail;  // "libcuda.so.1: cannot open shared object file", "driver 12.4, 2 devices"
};

struct Machine {
  Cpu cpu;
  std::string cpu_name;  // as the CPU calls itself
  CacheSizes caches;
  int logical_cpus = 0;            // the machine's
  int usable_threads = 0;          // what the affinity mask and the cgroup's quota leave, >= 1
  std::string threads_limited_by;  // "affinity", "cgroup quota 1.50", "" where nothing limits
  std::vector<std::string> isa_refused;  // in the CPU, not allowed by the OS, each with the reason
  std::vector<GpuDevice> gpus;
  std::vector<DriverReport> drivers;
};

// Detected on the first call, the same object afterwards. Thread-safe, does not fail: what cannot
// be found out is unknown in the answer.
MLA_API const Machine& this_machine();
// The first GPU where there is one, else the CPU.
MLA_API Platform this_platform();
// The CPU of this machine as a platform.
MLA_API Platform this_cpu_platform();

}  // namespace mla
