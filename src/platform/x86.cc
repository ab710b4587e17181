// Decoding of cpuid registers: vendor, family, model, name, caches, and the features that the OS
// lets a process use.
#include "platform/x86.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace mla::platform {
namespace {

enum Register : std::uint8_t { kEax, kEbx, kEcx, kEdx };
enum class State : std::uint8_t { kNone, kAvx, kAvx512, kAmx };

struct Feature {
  std::string_view name;  // as in /proc/cpuinfo
  CpuidLeaf X86Registers::*leaf;
  Register reg;
  int bit;
  State state;  // the registers it works on
};

constexpr Feature kFeatures[] = {
    {"sse4_1", &X86Registers::leaf1, kEcx, 19, State::kNone},
    {"sse4_2", &X86Registers::leaf1, kEcx, 20, State::kNone},
    {"avx", &X86Registers::leaf1, kEcx, 28, State::kAvx},
    {"f16c", &X86Registers::leaf1, kEcx, 29, State::kAvx},
    {"fma", &X86Registers::leaf1, kEcx, 12, State::kAvx},
    {"avx2", &X86Registers::leaf7, kEbx, 5, State::kAvx},
    {"avx_vnni", &X86Registers::leaf7_1, kEax, 4, State::kAvx},
    {"avx512f", &X86Registers::leaf7, kEbx, 16, State::kAvx512},
    {"avx512dq", &X86Registers::leaf7, kEbx, 17, State::kAvx512},
    {"avx512cd", &X86Registers::leaf7, kEbx, 28, State::kAvx512},
    {"avx512bw", &X86Registers::leaf7, kEbx, 30, State::kAvx512},
    {"avx512vl", &X86Registers::leaf7, kEbx, 31, State::kAvx512},
    {"avx512_vbmi2", &X86Registers::leaf7, kEcx, 6, State::kAvx512},
    {"avx512_vnni", &X86Registers::leaf7, kEcx, 11, State::kAvx512},
    {"avx512_fp16", &X86Registers::leaf7, kEdx, 23, State::kAvx512},
    {"avx512_bf16", &X86Registers::leaf7_1, kEax, 5, State::kAvx512},
    {"amx_bf16", &X86Registers::leaf7, kEdx, 22, State::kAmx},
    {"amx_tile", &X86Registers::leaf7, kEdx, 24, State::kAmx},
    {"amx_int8", &X86Registers::leaf7, kEdx, 25, State::kAmx},
    {"amx_fp16", &X86Registers::leaf7_1, kEax, 21, State::kAmx},
};

constexpr std::uint64_t kXcr0Avx = 0x6;       // XMM, upper halves of YMM
constexpr std::uint64_t kXcr0Avx512 = 0xe6;   // and opmask, upper halves of ZMM, ZMM16..31
constexpr std::uint64_t kXcr0Amx = 0x60000;   // TILECFG, TILEDATA
constexpr std::uint64_t kPermAmx = 1u << 18;  // TILEDATA needs the process's own request

bool saves(std::uint64_t xcr0, std::uint64_t states) { return (xcr0 & states) == states; }

// Empty: allowed.
std::string_view refusal(State state, const X86Registers& registers) {
  switch (state) {
    case State::kNone:
      return "";
    case State::kAvx:
      return saves(registers.xcr0, kXcr0Avx) ? "" : "the OS does not save YMM registers (XCR0)";
    case State::kAvx512:
      return saves(registers.xcr0, kXcr0Avx512) ? "" : "the OS does not save ZMM registers (XCR0)";
    case State::kAmx:
      if (!saves(registers.xcr0, kXcr0Amx)) return "the OS does not save AMX tiles (XCR0)";
      if (!saves(registers.xcomp_permission, kPermAmx)) {
        return "the kernel refused the permission to use AMX tiles (ARCH_REQ_XCOMP_PERM)";
      }
      return "";
  }
  return "";
}

void append_text(std::string& text, std::uint32_t value) {
  for (int byte = 0; byte < 4; ++byte) text.push_back(static_cast<char>(value >> (8 * byte)));
}

std::string vendor_of(const CpuidLeaf& leaf0) {
  if (leaf0[kEbx] == 0) return "";
  std::string vendor;
  for (Register reg : {kEbx, kEdx, kEcx}) append_text(vendor, leaf0[reg]);
  return vendor;
}

std::string brand_of(const std::array<CpuidLeaf, 3>& brand) {
  std::string text;
  for (const CpuidLeaf& leaf : brand) {
    for (std::uint32_t value : leaf) append_text(text, value);
  }
  text.resize(std::min(text.size(), text.find('\0')));
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

CacheSizes caches_of(const std::vector<CpuidLeaf>& leaves) {
  constexpr std::uint32_t kData = 1;
  constexpr std::uint32_t kUnified = 3;
  CacheSizes sizes;
  for (const CpuidLeaf& leaf : leaves) {
    const std::uint32_t type = leaf[kEax] & 0x1f;
    if (type != kData && type != kUnified) continue;
    const std::int64_t ways = (leaf[kEbx] >> 22) + 1;
    const std::int64_t partitions = ((leaf[kEbx] >> 12) & 0x3ff) + 1;
    const std::int64_t line = (leaf[kEbx] & 0xfff) + 1;
    const std::int64_t size = ways * partitions * line * (std::int64_t{leaf[kEcx]} + 1);
    switch ((leaf[kEax] >> 5) & 0x7) {
      case 1:
        sizes.l1d = size;
        break;
      case 2:
        sizes.l2 = size;
        break;
      case 3:
        sizes.l3 = size;
        break;
      default:
        break;
    }
  }
  return sizes;
}

}  // namespace

CpuFacts decode_x86(const X86Registers& registers) {
  CpuFacts facts;
  facts.cpu.vendor = vendor_of(registers.leaf0);
  facts.name = brand_of(registers.brand);
  facts.caches = caches_of(registers.caches);

  const std::uint32_t signature = registers.leaf1[kEax];
  const int base_family = (signature >> 8) & 0xf;
  const int base_model = (signature >> 4) & 0xf;
  facts.cpu.family = base_family == 0xf ? base_family + ((signature >> 20) & 0xff) : base_family;
  const bool extended = base_family == 0xf || base_family == 0x6;
  facts.cpu.model = extended ? base_model + ((signature >> 12) & 0xf0) : base_model;

  for (const Feature& feature : kFeatures) {
    if (((registers.*feature.leaf)[feature.reg] >> feature.bit & 1u) == 0) continue;
    const std::string_view why = refusal(feature.state, registers);
    if (why.empty()) {
      facts.cpu.isa.emplace_back(feature.name);
    } else {
      facts.refused.push_back(std::string(feature.name) + ": " + std::string(why));
    }
  }
  std::sort(facts.cpu.isa.begin(), facts.cpu.isa.end());
  std::sort(facts.refused.begin(), facts.refused.end());
  return facts;
}

}  // namespace mla::platform
