// Models x platforms: the choice for a whole fleet at a glance.
#include "mla/selector.h"

namespace mla {
namespace {

NamedPlatform cuda(std::string name, int major, int minor) {
  Platform platform;
  platform.kind = DeviceKind::kCuda;
  platform.capability = Capability{major, minor};
  platform.simulated = true;
  return {std::move(name), std::move(platform)};
}

NamedPlatform rocm(std::string arch, int major, int minor) {
  NamedPlatform named = cuda(arch, major, minor);
  named.platform.kind = DeviceKind::kRocm;
  named.platform.arch = std::move(arch);
  return named;
}

NamedPlatform cpu(std::string name, std::string vendor, IsaSet isa) {
  Platform platform;
  platform.kind = DeviceKind::kCpu;
  platform.cpu.vendor = std::move(vendor);
  platform.cpu.isa = std::move(isa);
  platform.simulated = true;
  return {std::move(name), std::move(platform)};
}

}  // namespace

std::vector<NamedPlatform> known_platforms(const Platform& here) {
  return {{"this machine", here},
          cuda("sm_80", 8, 0),
          cuda("sm_89", 8, 9),
          cuda("sm_90", 9, 0),
          cuda("sm_100", 10, 0),
          cuda("sm_103", 10, 3),
          cuda("sm_120", 12, 0),
          rocm("gfx942", 9, 4),
          rocm("gfx950", 9, 5),
          cpu("Intel AMX", "GenuineIntel",
              {"amx_bf16", "amx_tile", "avx2", "avx512", "avx512_bf16", "f16c", "fma"}),
          cpu("Intel AVX-512", "GenuineIntel", {"avx2", "avx512", "f16c", "fma"}),
          cpu("Intel AVX2", "GenuineIntel", {"avx2", "f16c", "fma"}),
          cpu("AMD Zen 4", "AuthenticAMD", {"avx2", "avx512", "avx512_bf16", "f16c", "fma"}),
          cpu("AMD Zen 2", "AuthenticAMD", {"avx2", "f16c", "fma"}),
          cpu("arm64", "ARM", {"neon"}),
          cpu("any CPU", "", {})};
}

Matrix matrix(const std::vector<NamedModel>& models, const std::vector<NamedPlatform>& platforms,
              const Policy& policy, Registry& registry) {
  Matrix matrix;
  for (const NamedPlatform& platform : platforms) matrix.platforms.push_back(platform.name);
  for (const NamedModel& model : models) {
    matrix.models.emplace_back(model.name);
    for (const NamedPlatform& platform : platforms) {
      matrix.cells.push_back(*select(model.config.problem(), platform.platform, policy, registry));
    }
  }
  return matrix;
}

}  // namespace mla
