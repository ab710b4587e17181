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

// Of fields that tell keys apart in practice and cost nothing to read; the rest is compared. A sum
// of products with odd constants: they do not wait for each other.
std::uint64_t hash_of(const KeyView& view) {
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  const Capability capability = view.platform.capability.value_or(Capability{});
  const std::uint64_t kinds = word(view.problem.dtype) | word(view.platform.kind) << 8 |
                              word(view.policy.compat) << 16 | word(view.policy.fallback) << 24 |
                              word(view.platform.cpu.isa.size()) << 32;
  std::uint64_t hash = view.generation * 0x9E3779B97F4A7C15u +
                       word(view.problem.dims.qk_nope_head_dim) * 0xBF58476D1CE4E5B9u +
                       word(view.problem.dims.qk_rope_head_dim) * 0x94D049BB133111EBu +
                       word(view.problem.dims.v_head_dim) * 0xD6E8FEB86659FD93u +
                       word(view.problem.num_heads.value_or(0)) * 0xA0761D6478BD642Fu +
                       word(capability.major) * 0xE7037ED1A0B428DBu +
                       word(capability.minor) * 0x8EBC6AF09C88C6E3u + kinds * 0x589965CC75374CC3u;
  for (const std::string* text : {&view.policy.backend, &view.platform.arch}) {
    for (const char c : *text) hash = hash * 31 + static_cast<unsigned char>(c);
  }
  return hash ^ (hash >> 32);
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
