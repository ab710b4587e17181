// Usable threads: cgroup files of both versions in fake trees, and the arithmetic.
#include "platform/threads.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platform/fake_tree.h"

namespace mla::platform {
namespace {

struct Group {
  std::string name;
  std::vector<std::pair<std::string, std::string>> files;
  std::optional<double> quota;
};

class Cgroup : public testing::TestWithParam<Group> {};

TEST_P(Cgroup, Quota) {
  const FakeTree tree;
  for (const auto& [path, content] : GetParam().files) tree.add(path, content);
  EXPECT_EQ(cgroup_cpu_quota(tree.root()), GetParam().quota);
}

const std::string kOwn = "/proc/self/cgroup";
const std::string kV2 = "/sys/fs/cgroup";
const std::string kV1 = "/sys/fs/cgroup/cpu/cpu.cfs_";
const std::string kV1Joined = "/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_";

INSTANTIATE_TEST_SUITE_P(
    V2, Cgroup,
    testing::Values(
        Group{
            "OfTheProcessesOwnGroup",
            {{kOwn, "0::/user.slice/job\n"}, {kV2 + "/user.slice/job/cpu.max", "150000 100000\n"}},
            1.5},
        Group{"AnAncestorMayBeTighter",
              {{kOwn, "0::/pod/container\n"},
               {kV2 + "/pod/container/cpu.max", "max 100000\n"},
               {kV2 + "/pod/cpu.max", "400000 100000\n"}},
              4.0},
        Group{"TheRootOfANamespace", {{kOwn, "0::/\n"}, {kV2 + "/cpu.max", "50000 100000\n"}}, 0.5},
        Group{
            "MaxIsNoLimit", {{kOwn, "0::/\n"}, {kV2 + "/cpu.max", "max 100000\n"}}, std::nullopt}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    V1, Cgroup,
    testing::Values(Group{"QuotaOverPeriod",
                          {{kOwn, "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/\n"},
                           {kV1Joined + "quota_us", "250000\n"},
                           {kV1Joined + "period_us", "100000\n"}},
                          2.5},
                    Group{"APathOfTheHostThatTheContainerDoesNotSee",
                          {{kOwn, "4:cpu,cpuacct:/docker/x\n"},
                           {kV1 + "quota_us", "300000\n"},
                           {kV1 + "period_us", "100000\n"}},
                          3.0},
                    Group{"MinusOneIsNoLimitAndCpusetIsNotCpu",
                          {{kOwn, "4:cpu:/\n3:cpuset:/\n2:cpuacct:/\n"},
                           {kV1 + "quota_us", "-1\n"},
                           {kV1 + "period_us", "100000\n"},
                           {kV2 + "/cpuset/cpu.cfs_quota_us", "100000\n"},
                           {kV2 + "/cpuset/cpu.cfs_period_us", "100000\n"}},
                          std::nullopt}),
    [](const auto& info) { return info.param.name; });

TEST(CgroupFiles, BrokenOnesAreNoLimit) {
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
