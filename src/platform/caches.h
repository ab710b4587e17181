// Cache sizes as Linux lists them under /sys/devices/system/cpu/cpu0/cache.
#pragma once

#include <string>

#include "mla/platform.h"

namespace mla::platform {

// `root` is "" for this machine. What is not listed is 0.
CacheSizes sysfs_caches(const std::string& root);

}  // namespace mla::platform
