// The cache pool: one allocation of pages, a count of owners a page, and the sequences' page lists.
#include "mla/cache_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>

#include "prefill/limits.h"

namespace mla::prefill {
namespace {

struct Sequence {
  std::int64_t length = 0;
  std::vector<std::int32_t> blocks;
};

struct Freed {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
};

Status check(const CachePoolConfig& config) {
  const struct {
    const char* field;
    std::int64_t value, low, high;
  } ranges[] = {{"num_blocks", config.num_blocks, 0, kMaxBlocks},
                {"block_size", config.block_size, 1, kMaxBlockSize},
                {"kv_lora_rank", config.kv_lora_rank, 1, kMaxDim},
                {"qk_rope_head_dim", config.qk_rope_head_dim, 0, kMaxDim}};
  for (const auto& range : ranges) {
    if (range.value < range.low || range.value > range.high) {
      return out_of_range(range.field, range.value, range.low, range.high);
    }
  }
  if (!is_float(config.dtype)) return wrong_dtype("dtype", config.dtype);
  return {};
}

}  // namespace

struct CachePool::State {
  CachePoolConfig config;
  std::unique_ptr<std::byte, Freed> data;
  std::vector<std::int32_t> free;  // the next block to give out is the last
  std::vector<std::int32_t> owners;
  std::vector<std::optional<Sequence>> sequences;

  Result<Sequence*> find(std::int64_t id) {
    if (id >= 0 && id < static_cast<std::int64_t>(sequences.size())) {
      std::optional<Sequence>& found = sequences[static_cast<std::size_t>(id)];
      if (found.has_value()) return &*found;
    }
    return invalid("sequence", fmt::format("sequence is {}, which is not open", id));
  }
  std::int32_t& owners_of(std::int32_t block) { return owners[static_cast<std::size_t>(block)]; }
};

CachePool::CachePool(std::unique_ptr<State> state) : state_(std::move(state)) {}
CachePool::~CachePool() = default;
CachePool::CachePool(CachePool&&) noexcept = default;
CachePool& CachePool::operator=(CachePool&&) noexcept = default;

Result<CachePool> CachePool::create(const CachePoolConfig& config) {
  if (Status s = check(config); !s) return s.error();
  auto state = std::make_unique<State>();
  state->config = config;
  std::int64_t bytes =
      config.block_size * (config.kv_lora_rank + config.qk_rope_head_dim) * size_of(config.dtype);
  if (__builtin_mul_overflow(bytes, config.num_blocks, &bytes)) bytes = -1;
  if (bytes > 0) {
    state->data.reset(static_cast<std::byte*>(
        ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64}, std::nothrow)));
  }
  if (bytes < 0 || (bytes > 0 && state->data == nullptr)) {
    return Error{
        ErrorCode::kOutOfMemory, "num_blocks",
        fmt::format("no memory for {} blocks of {} tokens", config.num_blocks, config.block_size)};
  }
  std::fill_n(state->data.get(), static_cast<std::size_t>(bytes), std::byte{0});
  state->owners.assign(static_cast<std::size_t>(config.num_blocks), 0);
  for (std::int64_t b = config.num_blocks; b-- > 0;) {
    state->free.push_back(static_cast<std::int32_t>(b));
  }
  return CachePool(std::move(state));
}

PagedCache CachePool::cache() const {
  return {state_->data.get(), state_->config.num_blocks, state_->config.block_size, 0};
}

std::int64_t CachePool::free_blocks() const {
  return static_cast<std::int64_t>(state_->free.size());
}

std::int64_t CachePool::open() {
  const auto unused = std::find(state_->sequences.begin(), state_->sequences.end(), std::nullopt);
  const std::int64_t id = unused - state_->sequences.begin();
  if (unused == state_->sequences.end()) state_->sequences.emplace_back();
  state_->sequences[static_cast<std::size_t>(id)].emplace();
  return id;
}

Result<std::int64_t> CachePool::share(std::int64_t sequence, std::int64_t tokens) {
  Result<Sequence*> from = state_->find(sequence);
  if (!from) return from.error();
  if (tokens < 0 || tokens > (*from)->length) {
    return out_of_range("tokens", tokens, 0, (*from)->length);
  }
  Sequence shared;
  const std::int64_t blocks = tokens / state_->config.block_size;
  shared.length = blocks * state_->config.block_size;
  shared.blocks.assign((*from)->blocks.begin(), (*from)->blocks.begin() + blocks);
  for (std::int32_t block : shared.blocks) ++state_->owners_of(block);
  const std::int64_t id = open();
  state_->sequences[static_cast<std::size_t>(id)] = std::move(shared);
  return id;
}

Result<std::vector<std::int64_t>> CachePool::extend(std::int64_t sequence, std::int64_t tokens) {
  Result<Sequence*> found = state_->find(sequence);
  if (!found) return found.error();
  Sequence& s = **found;
  const std::int64_t block_size = state_->config.block_size;
  const auto held = static_cast<std::int64_t>(s.blocks.size());
  const std::int64_t room = held * block_size - s.length;
  if (tokens < 0) return out_of_range("tokens", tokens, 0, room + free_blocks() * block_size);
  if (tokens > room && (tokens - room - 1) / block_size >= free_blocks()) {
    return Error{ErrorCode::kOutOfMemory, "tokens",
                 fmt::format("tokens is {}; the pool has room for {} more of this sequence", tokens,
                             room + free_blocks() * block_size)};
  }
  std::vector<std::int64_t> slots;
  slots.reserve(static_cast<std::size_t>(tokens));
  for (std::int64_t i = 0; i < tokens; ++i, ++s.length) {
    if (s.length == static_cast<std::int64_t>(s.blocks.size()) * block_size) {
      s.blocks.push_back(state_->free.back());
      state_->free.pop_back();
      state_->owners_of(s.blocks.back()) = 1;
    }
    slots.push_back(s.blocks.back() * block_size + s.length % block_size);
  }
  return slots;
}

Status CachePool::close(std::int64_t sequence) {
  Result<Sequence*> found = state_->find(sequence);
  if (!found) return found.error();
  for (std::int32_t block : (*found)->blocks) {
    if (--state_->owners_of(block) == 0) state_->free.push_back(block);
  }
  state_->sequences[static_cast<std::size_t>(sequence)].reset();
  return {};
}

Result<std::int64_t> CachePool::length(std::int64_t sequence) const {
  Result<Sequence*> found = state_->find(sequence);
  if (!found) return found.error();
  return (*found)->length;
}

Result<std::vector<std::int32_t>> CachePool::blocks(std::int64_t sequence) const {
  Result<Sequence*> found = state_->find(sequence);
  if (!found) return found.error();
  return (*found)->blocks;
}

}  // namespace mla::prefill
