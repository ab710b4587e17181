// What is made of the answers of GPU drivers, told by fake drivers.
#include "platform/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mla::platform {
namespace {

using testing::HasSubstr;

TEST(Cuda, ADriverWithDevicesIsReadDeviceByDevice) {
  const DriverAnswer answer = query_cuda(FAKE_CUDA_TWO);
  EXPECT_EQ(answer.report.kind, DeviceKind::kCuda);
  EXPECT_TRUE(answer.report.present);
  EXPECT_EQ(answer.report.detail, "driver 12.4, 2 devices");
  ASSERT_EQ(answer.devices.size(), 2u);
  EXPECT_EQ(answer.devices[0].name, "Fake B200");
  EXPECT_EQ(answer.devices[0].kind, DeviceKind::kCuda);
  EXPECT_EQ(answer.devices[0].capability, (Capability{10, 0}));
  EXPECT_EQ(answer.devices[0].memory_bytes, std::int64_t{180} << 30);
  EXPECT_EQ(answer.devices[1].index, 1);
  EXPECT_EQ(answer.devices[1].capability, (Capability{9, 0}));
}

TEST(Cuda, ADriverWithoutADeviceSaysSo) {
  const DriverAnswer answer = query_cuda(FAKE_CUDA_NONE);
  EXPECT_TRUE(answer.report.present);
  EXPECT_EQ(answer.report.detail, "cuInit: no CUDA-capable device is detected");
  EXPECT_TRUE(answer.devices.empty());
}

TEST(Cuda, ADriverThatLacksASymbolIsNamedWithIt) {
  const DriverAnswer answer = query_cuda(FAKE_CUDA_OLD);
  EXPECT_TRUE(answer.report.present);
  EXPECT_THAT(answer.report.detail, HasSubstr("no symbol cuDeviceTotalMem_v2"));
  EXPECT_TRUE(answer.devices.empty());
}

TEST(Cuda, NoDriverIsAnAnswer) {
  const DriverAnswer answer = query_cuda("libmla_no_such_driver.so.1");
  EXPECT_FALSE(answer.report.present);
  EXPECT_THAT(answer.report.detail, HasSubstr("libmla_no_such_driver.so.1"));
  EXPECT_TRUE(answer.devices.empty());
}

TEST(Rocm, TheArchitectureIsFoundWhereverTheReleaseKeepsIt) {
  for (const char* library : {FAKE_ROCM_TWO, FAKE_ROCM_OLD}) {
    const DriverAnswer answer = query_rocm(library);
    EXPECT_EQ(answer.report.kind, DeviceKind::kRocm);
    EXPECT_EQ(answer.report.detail, "driver 6.3, 2 devices");
    ASSERT_EQ(answer.devices.size(), 2u) << library;
    EXPECT_EQ(answer.devices[0].arch, "gfx942");
    EXPECT_EQ(answer.devices[0].capability, (Capability{9, 4}));
    EXPECT_EQ(answer.devices[0].memory_bytes, std::int64_t{192} << 30);
    EXPECT_EQ(answer.devices[1].arch, "gfx90a");
    EXPECT_EQ(answer.devices[1].name, "MI250");
  }
}

TEST(Rocm, AnErrorWithoutATextIsGivenByNumber) {
  const DriverAnswer answer = query_rocm(FAKE_ROCM_BROKEN);
  EXPECT_TRUE(answer.report.present);
  EXPECT_EQ(answer.report.detail, "hipInit: error 3");
  EXPECT_TRUE(answer.devices.empty());
}

TEST(Rocm, NoDriverIsAnAnswer) {
  const DriverAnswer answer = query_rocm("libmla_no_such_driver.so");
  EXPECT_FALSE(answer.report.present);
  EXPECT_THAT(answer.report.detail, HasSubstr("libmla_no_such_driver.so"));
}

}  // namespace
}  // namespace mla::platform
