// cpuid registers of CPUs that are not here: signatures as the vendors' revision guides list them,
// feature words composed by bit number.
#include "platform/x86.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mla::platform {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kXcr0Avx = 0x7;
constexpr std::uint64_t kXcr0Avx512 = 0xe7;
constexpr std::uint64_t kXcr0Amx = 0x600e7;

std::uint32_t bits(std::initializer_list<int> set) {
  std::uint32_t word = 0;
  for (int bit : set) word |= 1u << bit;
  return word;
}

// sse4_1, sse4_2, osxsave, avx, f16c, fma
const std::uint32_t kLeaf1Ecx = bits({12, 19, 20, 27, 28, 29});
// avx2; avx512 f, dq, cd, bw, vl
const std::uint32_t kAvx2 = bits({5});
const std::uint32_t kAvx512 = bits({16, 17, 28, 30, 31});

X86Registers amd(std::uint32_t signature) {
  X86Registers registers;
  registers.leaf0 = {0x10, 0x68747541, 0x444d4163, 0x69746e65};
  registers.leaf1 = {signature, 0, kLeaf1Ecx, 0};
  registers.leaf7 = {0, kAvx2, 0, 0};
  registers.xcr0 = kXcr0Avx;
  return registers;
}

X86Registers zen2() { return amd(0x00830f10); }

X86Registers zen4() {
  X86Registers registers = amd(0x00a10f11);
  registers.leaf7 = {1, kAvx2 | kAvx512, bits({6, 11}), 0};
  registers.leaf7_1 = {bits({5}), 0, 0, 0};
  registers.xcr0 = kXcr0Avx512;
  return registers;
}

X86Registers sapphire_rapids() {
  X86Registers registers;
  registers.leaf0 = {0x20, 0x756e6547, 0x6c65746e, 0x49656e69};
  registers.leaf1 = {0x000806f8, 0, kLeaf1Ecx, 0};
  registers.leaf7 = {1, kAvx2 | kAvx512, bits({6, 11}), bits({22, 23, 24, 25})};
  registers.leaf7_1 = {bits({4, 5}), 0, 0, 0};
  registers.xcr0 = kXcr0Amx;
  registers.xcomp_permission = kXcr0Amx;
  return registers;
}

TEST(X86, Zen2) {
  const CpuFacts facts = decode_x86(zen2());
  EXPECT_EQ(facts.cpu.vendor, "AuthenticAMD");
  EXPECT_EQ(facts.cpu.family, 0x17);
  EXPECT_EQ(facts.cpu.model, 0x31);
  EXPECT_THAT(facts.cpu.isa, ElementsAre("avx", "avx2", "f16c", "fma", "sse4_1", "sse4_2"));
  EXPECT_THAT(facts.refused, IsEmpty());
}

TEST(X86, Zen4) {
  const CpuFacts facts = decode_x86(zen4());
  EXPECT_EQ(facts.cpu.family, 0x19);
  EXPECT_EQ(facts.cpu.model, 0x11);
  EXPECT_THAT(facts.cpu.isa, ElementsAre("avx", "avx2", "avx512_bf16", "avx512_vbmi2",
                                         "avx512_vnni", "avx512bw", "avx512cd", "avx512dq",
                                         "avx512f", "avx512vl", "f16c", "fma", "sse4_1", "sse4_2"));
  EXPECT_THAT(facts.refused, IsEmpty());
}

TEST(X86, SapphireRapids) {
  const CpuFacts facts = decode_x86(sapphire_rapids());
  EXPECT_EQ(facts.cpu.vendor, "GenuineIntel");
  EXPECT_EQ(facts.cpu.family, 6);
  EXPECT_EQ(facts.cpu.model, 0x8f);
  for (const char* feature :
       {"amx_bf16", "amx_int8", "amx_tile", "avx512_bf16", "avx512_fp16", "avx_vnni"}) {
    EXPECT_THAT(facts.cpu.isa, Contains(feature));
  }
  EXPECT_THAT(facts.cpu.isa, Not(Contains("amx_fp16")));
  EXPECT_THAT(facts.refused, IsEmpty());
}

TEST(X86, AnOsThatHidesAvx512) {
  X86Registers registers = zen4();
  registers.xcr0 = kXcr0Avx;
  const CpuFacts facts = decode_x86(registers);
  EXPECT_THAT(facts.cpu.isa, ElementsAre("avx", "avx2", "f16c", "fma", "sse4_1", "sse4_2"));
  EXPECT_EQ(facts.refused.size(), 8u);
  EXPECT_THAT(facts.refused, Contains(StartsWith("avx512_bf16: the OS does not save ZMM")));
}

TEST(X86, HalfOfTheAvx512StateIsNotEnough) {
  for (int missing : {5, 6, 7}) {
    X86Registers registers = zen4();
    registers.xcr0 &= ~(std::uint64_t{1} << missing);
    EXPECT_THAT(decode_x86(registers).cpu.isa, Not(Contains("avx512f"))) << "bit " << missing;
  }
}

TEST(X86, AnOsWithoutXsaveAllowsNoAvx) {
  X86Registers registers = zen4();
  registers.xcr0 = 0;
  EXPECT_THAT(decode_x86(registers).cpu.isa, ElementsAre("sse4_1", "sse4_2"));
}

TEST(X86, NoAmxPermission) {
  X86Registers registers = sapphire_rapids();
  registers.xcomp_permission = kXcr0Avx512;
  const CpuFacts facts = decode_x86(registers);
  EXPECT_THAT(facts.cpu.isa, Contains("avx512_fp16"));
  EXPECT_THAT(facts.cpu.isa, Not(Contains(StartsWith("amx"))));
  EXPECT_THAT(facts.refused, ElementsAre(StartsWith("amx_bf16: the kernel refused"),
                                         StartsWith("amx_int8: the kernel refused"),
                                         StartsWith("amx_tile: the kernel refused")));
}

TEST(X86, AnOsThatSavesNoTiles) {
  X86Registers registers = sapphire_rapids();
  registers.xcr0 = kXcr0Avx512;
  const CpuFacts facts = decode_x86(registers);
  EXPECT_THAT(facts.cpu.isa, Not(Contains(StartsWith("amx"))));
  EXPECT_THAT(facts.refused, Contains(StartsWith("amx_tile: the OS does not save AMX tiles")));
}

TEST(X86, NoFeatureIsBothAllowedAndRefused) {
  for (std::uint64_t xcr0 = 0; xcr0 < 0x100; ++xcr0) {
    X86Registers registers = sapphire_rapids();
    registers.xcr0 = xcr0 | (xcr0 % 2 ? 0x60000 : 0);
    const CpuFacts facts = decode_x86(registers);
    EXPECT_EQ(facts.cpu.isa.size() + facts.refused.size(),
              decode_x86(sapphire_rapids()).cpu.isa.size());
    EXPECT_TRUE(std::is_sorted(facts.cpu.isa.begin(), facts.cpu.isa.end()));
  }
}

TEST(X86, TheNameIsTrimmed) {
  X86Registers registers = zen2();
  const char text[49] = "  AMD EPYC 7742 64-Core Processor               ";
  for (std::size_t i = 0; i < 48; ++i) {
    registers.brand[i / 16][i / 4 % 4] |= static_cast<std::uint32_t>(text[i]) << (i % 4 * 8);
  }
  EXPECT_EQ(decode_x86(registers).name, "AMD EPYC 7742 64-Core Processor");
  EXPECT_EQ(decode_x86(zen2()).name, "");
}

TEST(X86, CachesOfLeaf4) {
  X86Registers registers = sapphire_rapids();
  // 48 KiB 12-way data, 32 KiB 8-way code, 2 MiB 16-way, 105 MiB 15-way; lines of 64 bytes
  registers.caches = {{0x4121, (11u << 22) | 63, 63, 0},
                      {0x4122, (7u << 22) | 63, 63, 0},
                      {0x4143, (15u << 22) | 63, 2047, 0},
                      {0x4163, (14u << 22) | 63, 114687, 4}};
  const CacheSizes caches = decode_x86(registers).caches;
  EXPECT_EQ(caches.l1d, 48 << 10);
  EXPECT_EQ(caches.l2, 2 << 20);
  EXPECT_EQ(caches.l3, 105 << 20);
}

TEST(X86, AnEmptyCpuIsUnknown) {
  const CpuFacts facts = decode_x86({});
  EXPECT_EQ(facts.cpu, Cpu{});
  EXPECT_EQ(facts.name, "");
  EXPECT_EQ(facts.caches.l1d, 0);
}

}  // namespace
}  // namespace mla::platform
