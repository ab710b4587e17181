// Names of device kinds and platforms as a line.
#include "mla/platform.h"

#include <gtest/gtest.h>

namespace mla {
namespace {

TEST(DeviceKind, NamesAndTheirParserAreInverse) {
  for (DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kRocm, DeviceKind::kCpu}) {
    EXPECT_EQ(parse_device_kind(name(kind)), kind);
  }
  for (const char* text : {"", "CUDA", "gpu", "cuda ", "unknown"}) {
    EXPECT_EQ(parse_device_kind(text), std::nullopt) << text;
  }
}

TEST(ToString, OneLineAKind) {
  Platform cuda;
  cuda.kind = DeviceKind::kCuda;
  EXPECT_EQ(to_string(cuda), "cuda, compute capability unknown");
  cuda.capability = Capability{10, 3};
  EXPECT_EQ(to_string(cuda), "cuda, compute capability 10.3");

  Platform rocm;
  rocm.kind = DeviceKind::kRocm;
  EXPECT_EQ(to_string(rocm), "rocm, architecture unknown");
  rocm.arch = "gfx942";
  EXPECT_EQ(to_string(rocm), "rocm, gfx942");

  Platform cpu;
  EXPECT_EQ(to_string(cpu), "cpu, vendor unknown");
  cpu.cpu.vendor = "AuthenticAMD";
  EXPECT_EQ(to_string(cpu), "cpu, AuthenticAMD");
  cpu.cpu.isa = {"avx2", "f16c", "fma"};
  EXPECT_EQ(to_string(cpu), "cpu, AuthenticAMD, avx2 f16c fma");
}

TEST(Capability, OrdersByMajorThenMinor) {
  EXPECT_LT((Capability{9, 0}), (Capability{10, 0}));
  EXPECT_LT((Capability{10, 0}), (Capability{10, 3}));
}

}  // namespace
}  // namespace mla
