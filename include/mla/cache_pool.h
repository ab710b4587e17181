// A small owner of latent cache pages, for users without one: sequences grow by tokens, share
// their full blocks with other sequences, and give their blocks back when closed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mla/core.h"
#include "mla/prefill.h"

namespace mla::prefill {

struct CachePoolConfig {
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 16;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_rope_head_dim = 0;
  DType dtype = DType::kBFloat16;
};

// Not thread-safe. kInvalidArgument names an argument out of range, such as a sequence that is not
// open, and changes nothing.
class MLA_API CachePool {
 public:
  // Also kOutOfMemory.
  static Result<CachePool> create(const CachePoolConfig& config);
  ~CachePool();
  CachePool(CachePool&&) noexcept;
  CachePool& operator=(CachePool&&) noexcept;

  PagedCache cache() const;
  std::int64_t free_blocks() const;

  // A new, empty sequence.
  std::int64_t open();
  // A new sequence that shares the full blocks of the first `tokens` tokens of another; length()
  // says how many tokens that is (a multiple of block_size).
  Result<std::int64_t> share(std::int64_t sequence, std::int64_t tokens);
  // Makes room for `tokens` more and gives their slots, in order. kOutOfMemory leaves the sequence
  // as it was.
  Result<std::vector<std::int64_t>> extend(std::int64_t sequence, std::int64_t tokens);
  Status close(std::int64_t sequence);

  Result<std::int64_t> length(std::int64_t sequence) const;
  Result<std::vector<std::int32_t>> blocks(std::int64_t sequence) const;

 private:
  struct State;
  explicit CachePool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mla::prefill
