// Cache sizes from sysfs. The first CPU speaks for all: on a hybrid CPU its caches are the larger.
#include "platform/caches.h"

#include "platform/text_file.h"

namespace mla::platform {
namespace {

// "2048K" -> 2097152; 0 where it is none.
std::int64_t parse_size(std::string_view text) {
  std::int64_t unit = 1;
  if (!text.empty() && (text.back() == 'K' || text.back() == 'M')) {
    unit = text.back() == 'K' ? 1 << 10 : 1 << 20;
    text.remove_suffix(1);
  }
  return parse_number(text).value_or(0) * unit;
}

}  // namespace

CacheSizes sysfs_caches(const std::string& root) {
  CacheSizes sizes;
  for (int index = 0;; ++index) {
    const std::string folder =
        root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    const auto level = read_text(folder + "/level");
    if (!level) return sizes;
    const auto type = read_text(folder + "/type");
    const auto size = read_text(folder + "/size");
    if (!size || !type || *type == "Instruction") continue;
    if (*level == "1") sizes.l1d = parse_size(*size);
    if (*level == "2") sizes.l2 = parse_size(*size);
    if (*level == "3") sizes.l3 = parse_size(*size);
  }
}

}  // namespace mla::platform
