// Decoding of HWCAP, HWCAP2 and MIDR_EL1. The kernel sets a bit only for what a process may use.
#include "platform/arm64.h"

#include <algorithm>
#include <string_view>

namespace mla::platform {
namespace {

struct Feature {
  std::string_view name;  // as in /proc/cpuinfo, but neon for asimd
  std::uint64_t Arm64Registers::*word;
  int bit;
};

constexpr Feature kFeatures[] = {
    {"neon", &Arm64Registers::hwcap, 1},     {"fphp", &Arm64Registers::hwcap, 9},
    {"asimdhp", &Arm64Registers::hwcap, 10}, {"asimddp", &Arm64Registers::hwcap, 20},
    {"sve", &Arm64Registers::hwcap, 22},     {"asimdfhm", &Arm64Registers::hwcap, 23},
    {"sve2", &Arm64Registers::hwcap2, 1},    {"i8mm", &Arm64Registers::hwcap2, 13},
    {"bf16", &Arm64Registers::hwcap2, 14},   {"sme", &Arm64Registers::hwcap2, 23},
};

struct Named {
  std::uint32_t code;
  std::string_view name;
};

constexpr Named kImplementers[] = {{0x41, "ARM"},     {0x42, "Broadcom"},  {0x43, "Cavium"},
                                   {0x46, "Fujitsu"}, {0x48, "HiSilicon"}, {0x4e, "NVIDIA"},
                                   {0x50, "APM"},     {0x51, "Qualcomm"},  {0x53, "Samsung"},
                                   {0x61, "Apple"},   {0x6d, "Microsoft"}, {0xc0, "Ampere"}};

constexpr Named kArmParts[] = {
    {0xd03, "Cortex-A53"},  {0xd07, "Cortex-A57"},  {0xd08, "Cortex-A72"},
    {0xd0b, "Cortex-A76"},  {0xd0c, "Neoverse-N1"}, {0xd40, "Neoverse-V1"},
    {0xd49, "Neoverse-N2"}, {0xd4f, "Neoverse-V2"}, {0xd8e, "Neoverse-N3"}};

template <class Table>
std::string_view find(const Table& table, std::uint32_t code) {
  for (const Named& entry : table) {
    if (entry.code == code) return entry.name;
  }
  return "";
}

}  // namespace

CpuFacts decode_arm64(const Arm64Registers& registers) {
  CpuFacts facts;
  const auto implementer = static_cast<std::uint32_t>(registers.midr >> 24 & 0xff);
  const auto part = static_cast<std::uint32_t>(registers.midr >> 4 & 0xfff);
  facts.cpu.vendor = find(kImplementers, implementer);
  facts.cpu.model = static_cast<int>(part);
  if (facts.cpu.vendor == "ARM") facts.name = find(kArmParts, part);
  for (const Feature& feature : kFeatures) {
    if ((registers.*feature.word >> feature.bit & 1) != 0) facts.cpu.isa.emplace_back(feature.name);
  }
  std::sort(facts.cpu.isa.begin(), facts.cpu.isa.end());
  return facts;
}

}  // namespace mla::platform
