// Cache sizes from trees that look like /sys.
#include "platform/caches.h"

#include <gtest/gtest.h>

#include "platform/fake_tree.h"

namespace mla::platform {
namespace {

void add_cache(const FakeTree& tree, int index, const std::string& level, const std::string& type,
               const std::string& size) {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
  tree.add(folder + "/level", level + "\n");
  tree.add(folder + "/type", type + "\n");
  tree.add(folder + "/size", size + "\n");
}

TEST(Caches, DataAndUnifiedCachesAreRead) {
  const FakeTree tree;
  add_cache(tree, 0, "1", "Data", "48K");
  add_cache(tree, 1, "1", "Instruction", "32K");
  add_cache(tree, 2, "2", "Unified", "2048K");
  add_cache(tree, 3, "3", "Unified", "105M");
  const CacheSizes caches = sysfs_caches(tree.root());
  EXPECT_EQ(caches.l1d, 48 << 10);
  EXPECT_EQ(caches.l2, 2 << 20);
  EXPECT_EQ(caches.l3, 105 << 20);
}

TEST(Caches, NoTreeIsUnknown) {
  const FakeTree tree;
  const CacheSizes caches = sysfs_caches(tree.root());
  EXPECT_EQ(caches.l1d, 0);
  EXPECT_EQ(caches.l2, 0);
  EXPECT_EQ(caches.l3, 0);
}

TEST(Caches, ASizeThatIsNoneIsUnknown) {
  const FakeTree tree;
  add_cache(tree, 0, "1", "Data", "much");
  add_cache(tree, 1, "2", "Unified", "");
  EXPECT_EQ(sysfs_caches(tree.root()).l1d, 0);
  EXPECT_EQ(sysfs_caches(tree.root()).l2, 0);
}

}  // namespace
}  // namespace mla::platform
