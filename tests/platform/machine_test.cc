// This machine against what the kernel says of it.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "mla/platform.h"

namespace mla {
namespace {

// The first line of /proc/cpuinfo that begins with `key`, behind the colon.
std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "";
}

std::set<std::string> kernel_flags() {
  std::istringstream words(cpuinfo("flags"));
  return {std::istream_iterator<std::string>(words), {}};
}

// Under qemu-user /proc/cpuinfo is that of the host.
bool is_x86() {
  const IsaSet& isa = this_machine().cpu.isa;
  return std::count(isa.begin(), isa.end(), "sse4_1") == 1;
}

TEST(ThisMachine, IsTheSameObjectFromEveryThread) {
  std::vector<const Machine*> seen(8);
  std::vector<std::thread> threads;
  for (auto& slot : seen) threads.emplace_back([&slot] { slot = &this_machine(); });
  for (auto& thread : threads) thread.join();
  for (const Machine* machine : seen) EXPECT_EQ(machine, &this_machine());
}

TEST(ThisMachine, IsaIsWhatTheKernelLists) {
  const std::set<std::string> flags = kernel_flags();
  if (!is_x86() || flags.empty()) GTEST_SKIP() << "no x86 CPU, or /proc/cpuinfo is another's";
  const IsaSet& isa = this_machine().cpu.isa;
  for (const std::string& feature : isa) EXPECT_TRUE(flags.count(feature)) << feature;
  // And nothing that matters is overlooked.
  for (const char* feature : {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16"}) {
    EXPECT_EQ(flags.count(feature), std::count(isa.begin(), isa.end(), feature)) << feature;
  }
}

TEST(ThisMachine, VendorFamilyAndModel) {
  if (!is_x86() || cpuinfo("vendor_id").empty()) {
    GTEST_SKIP() << "no x86 CPU, or /proc/cpuinfo is another's";
  }
  EXPECT_EQ(this_machine().cpu.vendor, cpuinfo("vendor_id"));
  EXPECT_EQ(std::to_string(this_machine().cpu.family), cpuinfo("cpu family"));
  EXPECT_EQ(std::to_string(this_machine().cpu.model), cpuinfo("model\t"));
  EXPECT_EQ(this_machine().cpu_name, cpuinfo("model name"));
}

TEST(ThisMachine, ThreadsFitTheMask) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_GE(this_machine().usable_threads, 1);
  EXPECT_LE(this_machine().usable_threads, CPU_COUNT(&mask));
  EXPECT_GE(this_machine().logical_cpus, CPU_COUNT(&mask));
}

TEST(ThisMachine, EveryDriverFamilyAnswers) {
  ASSERT_EQ(this_machine().drivers.size(), 2u);
  EXPECT_EQ(this_machine().drivers[0].kind, DeviceKind::kCuda);
  EXPECT_EQ(this_machine().drivers[1].kind, DeviceKind::kRocm);
  for (const DriverReport& driver : this_machine().drivers) EXPECT_NE(driver.detail, "");
}

TEST(ThisPlatform, IsTheFirstGpuElseTheCpu) {
  const Platform platform = this_platform();
  EXPECT_FALSE(platform.simulated);
  if (this_machine().gpus.empty()) {
    EXPECT_EQ(platform, this_cpu_platform());
  } else {
    EXPECT_EQ(platform.kind, this_machine().gpus.front().kind);
    EXPECT_EQ(platform.capability, this_machine().gpus.front().capability);
  }
}

TEST(ThisCpuPlatform, IsThisCpu) {
  EXPECT_EQ(this_cpu_platform().kind, DeviceKind::kCpu);
  EXPECT_EQ(this_cpu_platform().cpu, this_machine().cpu);
}

}  // namespace
}  // namespace mla
