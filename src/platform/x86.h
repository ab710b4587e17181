// What the registers of an x86-64 CPU say, decoded by a pure function, so that any machine can be
// tested on any other. Bits: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mla/platform.h"

namespace mla::platform {

using CpuidLeaf = std::array<std::uint32_t, 4>;  // eax, ebx, ecx, edx; all 0: the CPU has none

struct X86Registers {
  CpuidLeaf leaf0{};                 // highest leaf, vendor
  CpuidLeaf leaf1{};                 // family, model, features
  CpuidLeaf leaf7{};                 // features, subleaf 0
  CpuidLeaf leaf7_1{};               // features, subleaf 1
  std::array<CpuidLeaf, 3> brand{};  // 0x80000002 .. 0x80000004
  std::vector<CpuidLeaf> caches;     // subleaves of leaf 4 (Intel) or 0x8000001d (AMD)
  std::uint64_t xcr0 = 0;            // register states the OS saves; 0 where xgetbv is not enabled
  std::uint64_t xcomp_permission = 0;  // states this process may use (ARCH_GET_XCOMP_PERM)
};

struct CpuFacts {
  Cpu cpu;
  std::string name;
  std::vector<std::string> refused;  // as Machine::isa_refused
  CacheSizes caches;
};

CpuFacts decode_x86(const X86Registers& registers);

}  // namespace mla::platform
