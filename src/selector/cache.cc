// select(): the cache in front of select_uncached. A hit costs a hash of the small fields, a lock
// and a comparison; the key is copied only on a miss.
#include <array>
#include <mutex>
#include <vector>

#include "mla/selector.h"

namespace mla {
namespace {

struct Key {
  std::uint64_t generation = 0;
  Problem problem;
  Platform platform;
  Policy policy;
};

struct KeyView {
  std::uint64_t generation;
  const Problem& problem;
  const Platform& platform;
  const Policy& policy;
};

bool matches(const Key& key, const KeyView& view) {
  return key.generation == view.generation && key.problem == view.problem &&
         key.policy == view.policy && key.platform == view.platform;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;  // 2^64 / the golden ratio
  return hash ^ (hash >> 29);
}

// Of fields that tell keys apart in practice and cost nothing to read; the rest is compared.
std::uint64_t hash_of(const KeyView& view) {
  std::uint64_t hash = mix(view.generation, static_cast<std::uint64_t>(view.problem.dtype));
  hash = mix(hash, static_cast<std::uint64_t>(view.problem.dims.qk_nope_head_dim) << 32 |
                       static_cast<std::uint32_t>(view.problem.dims.qk_rope_head_dim));
  hash = mix(hash, static_cast<std::uint64_t>(view.problem.dims.v_head_dim));
  hash = mix(hash, static_cast<std::uint64_t>(view.problem.num_heads.value_or(0)));
  const Capability capability = view.platform.capability.value_or(Capability{});
  hash = mix(hash, static_cast<std::uint64_t>(capability.major) << 32 |
                       static_cast<std::uint32_t>(capability.minor));
  hash = mix(hash,
             static_cast<std::uint64_t>(view.platform.kind) << 32 | view.platform.cpu.isa.size());
  hash = mix(hash, static_cast<std::uint64_t>(view.policy.compat) << 32 |
                       static_cast<std::uint64_t>(view.policy.fallback));
  for (const std::string* text : {&view.policy.backend, &view.platform.arch}) {
    for (const char c : *text) hash = mix(hash, static_cast<unsigned char>(c));
  }
  return hash;
}

// Buckets of a few entries, the oldest of which makes room; what a program asks is few questions.
class Cache {
 public:
  std::shared_ptr<const Selection> find(std::uint64_t hash, const KeyView& view) {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : bucket(hash)) {
      if (entry.hash == hash && matches(entry.key, view)) return entry.selection;
    }
    return nullptr;
  }

  void insert(std::uint64_t hash, const KeyView& view, std::shared_ptr<const Selection> selection) {
    Entry entry{
        hash, {view.generation, view.problem, view.platform, view.policy}, std::move(selection)};
    const std::lock_guard lock(mutex_);
    std::vector<Entry>& entries = bucket(hash);
    if (entries.size() == kBucketSize) entries.erase(entries.begin());
    entries.push_back(std::move(entry));
  }

 private:
  struct Entry {
    std::uint64_t hash;
    Key key;
    std::shared_ptr<const Selection> selection;
  };

  static constexpr std::size_t kBuckets = 256;
  static constexpr std::size_t kBucketSize = 8;

  std::vector<Entry>& bucket(std::uint64_t hash) { return buckets_[hash % kBuckets]; }

  std::mutex mutex_;
  std::array<std::vector<Entry>, kBuckets> buckets_;
};

Cache& cache() {
  static Cache& cache = *new Cache;
  return cache;
}

}  // namespace

std::shared_ptr<const Selection> select(const Problem& problem, const Platform& platform,
                                        const Policy& policy, Registry& registry) {
  // Read before the rows: a row that arrives in between is found again under its own generation.
  const KeyView view{registry.generation(), problem, platform, policy};
  const std::uint64_t hash = hash_of(view);
  if (auto found = cache().find(hash, view)) return found;
  auto selection =
      std::make_shared<const Selection>(select_uncached(problem, platform, policy, registry));
  cache().insert(hash, view, selection);
  return selection;
}

}  // namespace mla
