// Products by compute capability: developer.nvidia.com/cuda-gpus; by architecture: ROCm's list of
// GPU specifications.
#include "fleet.h"

#include <utility>

namespace mla::cli {
namespace {

constexpr std::pair<const char*, const char*> kTitles[] = {
    {"sm_80", "NVIDIA A100"},
    {"sm_89", "NVIDIA L4, L40S, RTX 4090"},
    {"sm_90", "NVIDIA H100, H200"},
    {"sm_100", "NVIDIA B200, GB200"},
    {"sm_103", "NVIDIA B300, GB300"},
    {"sm_120", "NVIDIA RTX 5090, RTX PRO 6000"},
    {"gfx942", "AMD Instinct MI300X, MI325X"},
    {"gfx950", "AMD Instinct MI350X, MI355X"},
    {"Intel AMX", "Intel Sapphire Rapids and newer Xeons"},
    {"Intel AVX-512", "Intel Skylake-SP to Ice Lake"},
    {"Intel AVX2", "Intel Haswell and newer"},
    {"AMD Zen 4", "AMD Zen 4, Zen 5"},
    {"AMD Zen 2", "AMD Zen 2, Zen 3"},
    {"arm64", "64-bit Arm with NEON"},
    {"any CPU", "no instruction set to speak of"},
};

std::string title_of(const std::string& name) {
  for (const auto& [known, title] : kTitles) {
    if (name == known) return title;
  }
  return name;
}

std::string this_title(const Platform& here) {
  const Machine& machine = this_machine();
  if (here.kind != DeviceKind::kCpu && !machine.gpus.empty()) return machine.gpus.front().name;
  return machine.cpu_name.empty() ? "this machine" : machine.cpu_name;
}

}  // namespace

std::vector<FleetMember> fleet() {
  const Platform here = this_platform();
  std::vector<FleetMember> members;
  for (NamedPlatform& named : known_platforms(here)) {
    const bool is_here = !named.platform.simulated;
    members.push_back({is_here ? "here" : named.name,
                       is_here ? this_title(here) : title_of(named.name), named.platform});
  }
  return members;
}

}  // namespace mla::cli
