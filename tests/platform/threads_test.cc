// Usable threads: cgroup files of both versions in fake trees, and the arithmetic.
#include "platform/threads.h"

#include <gtest/gtest.h>

#include <utility>

#include "platform/fake_tree.h"

namespace mla::platform {
namespace {

TEST(CgroupV2, TheQuotaOfTheProcessesOwnGroup) {
  const FakeTree tree;
  tree.add("/proc/self/cgroup", "0::/user.slice/job\n");
  tree.add("/sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 1.5);
}

TEST(CgroupV2, AnAncestorMayBeTighter) {
  const FakeTree tree;
  tree.add("/proc/self/cgroup", "0::/pod/container\n");
  tree.add("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  tree.add("/sys/fs/cgroup/pod/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 4.0);
}

TEST(CgroupV2, TheRootOfANamespace) {
  const FakeTree tree;
  tree.add("/proc/self/cgroup", "0::/\n");
  tree.add("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 0.5);
}

TEST(CgroupV2, MaxIsNoLimit) {
  const FakeTree tree;
  tree.add("/proc/self/cgroup", "0::/\n");
  tree.add("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt);
}

TEST(CgroupV1, QuotaOverPeriod) {
  const FakeTree tree;
  tree.add("/proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/\n");
  tree.add("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "250000\n");
  tree.add("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 2.5);
}

TEST(CgroupV1, APathOfTheHostThatTheContainerDoesNotSee) {
  const FakeTree tree;
  tree.add("/proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n");
  tree.add("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  tree.add("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), 3.0);
}

TEST(CgroupV1, MinusOneIsNoLimitAndCpusetIsNotCpu) {
  const FakeTree tree;
  tree.add("/proc/self/cgroup", "4:cpu:/\n3:cpuset:/\n2:cpuacct:/\n");
  tree.add("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  tree.add("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  tree.add("/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000\n");
  tree.add("/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt);
}

TEST(Cgroup, BrokenFilesAreNoLimit) {
  for (const char* content : {"", "150000 0", "-5 100000", "150000 x", "lots", "0 100000"}) {
    const FakeTree tree;
    tree.add("/proc/self/cgroup", "nonsense\n0::/\n");
    tree.add("/sys/fs/cgroup/cpu.max", content);
    EXPECT_EQ(cgroup_cpu_quota(tree.root()), std::nullopt) << content;
  }
  const FakeTree empty;
  EXPECT_EQ(cgroup_cpu_quota(empty.root()), std::nullopt);
}

TEST(OnlineCpus, TheListIsCounted) {
  const FakeTree tree;
  EXPECT_EQ(online_cpus(tree.root()), 0);
  for (const auto& [list, count] :
       {std::pair{"0", 1}, {"0-1", 2}, {"0-3,8,10-11", 7}, {"x", 0}, {"3-1", 0}, {"", 0}}) {
    tree.add("/sys/devices/system/cpu/online", std::string(list) + "\n");
    EXPECT_EQ(online_cpus(tree.root()), count) << list;
  }
}

TEST(UsableThreads, NothingLimits) {
  const UsableThreads usable = usable_threads(16, 16, std::nullopt);
  EXPECT_EQ(usable.count, 16);
  EXPECT_EQ(usable.limited_by, "");
}

TEST(UsableThreads, TheMaskLimits) {
  const UsableThreads usable = usable_threads(16, 4, 8.0);
  EXPECT_EQ(usable.count, 4);
  EXPECT_EQ(usable.limited_by, "affinity");
}

TEST(UsableThreads, TheQuotaLimitsAndIsRoundedUp) {
  const UsableThreads usable = usable_threads(16, 8, 1.5);
  EXPECT_EQ(usable.count, 2);
  EXPECT_EQ(usable.limited_by, "cgroup quota 1.50");
  EXPECT_EQ(usable_threads(16, 16, 0.25).count, 1);
}

TEST(UsableThreads, AtLeastOneWhateverIsUnknown) {
  EXPECT_EQ(usable_threads(0, 0, std::nullopt).count, 1);
  EXPECT_EQ(usable_threads(4, 0, std::nullopt).count, 4);
  EXPECT_EQ(usable_threads(0, 3, std::nullopt).count, 3);
}

}  // namespace
}  // namespace mla::platform
