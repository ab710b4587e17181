// arm64 CPUs by their auxiliary vector.
#include "platform/arm64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mla::platform {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Arm64, NeoverseV1) {
  Arm64Registers registers;
  // asimd, fphp, asimdhp, asimddp, sve, asimdfhm; i8mm, bf16
  registers.hwcap = 1u << 1 | 1u << 9 | 1u << 10 | 1u << 20 | 1u << 22 | 1u << 23;
  registers.hwcap2 = 1u << 13 | 1u << 14;
  registers.midr = 0x411fd401;
  const CpuFacts facts = decode_arm64(registers);
  EXPECT_EQ(facts.cpu.vendor, "ARM");
  EXPECT_EQ(facts.name, "Neoverse-V1");
  EXPECT_EQ(facts.cpu.model, 0xd40);
  EXPECT_THAT(facts.cpu.isa,
              ElementsAre("asimddp", "asimdfhm", "asimdhp", "bf16", "fphp", "i8mm", "neon", "sve"));
}

TEST(Arm64, AnOldCoreHasNeonOnly) {
  const CpuFacts facts = decode_arm64({.hwcap = 1u << 1, .hwcap2 = 0, .midr = 0x410fd083});
  EXPECT_EQ(facts.name, "Cortex-A72");
  EXPECT_THAT(facts.cpu.isa, ElementsAre("neon"));
}

TEST(Arm64, AnUnreadableIdLeavesTheVendorUnknown) {
  const CpuFacts facts = decode_arm64({.hwcap = 1u << 1, .hwcap2 = 1u << 14, .midr = 0});
  EXPECT_EQ(facts.cpu.vendor, "");
  EXPECT_EQ(facts.cpu.model, 0);
  EXPECT_THAT(facts.cpu.isa, ElementsAre("bf16", "neon"));
  EXPECT_THAT(facts.refused, IsEmpty());
}

TEST(Arm64, AnotherVendorsPartIsNotTakenForOneOfArm) {
  const CpuFacts facts = decode_arm64({.hwcap = 1u << 1, .hwcap2 = 0, .midr = 0xc00fd0c1});
  EXPECT_EQ(facts.cpu.vendor, "Ampere");
  EXPECT_EQ(facts.name, "");
}

}  // namespace
}  // namespace mla::platform
