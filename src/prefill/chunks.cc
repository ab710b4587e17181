// Context chunks: how a step's context is cut for backends that need K and V of a stretch of it in
// memory at once.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "mla/prefill.h"
#include "prefill/limits.h"

namespace mla::prefill {
namespace {

std::int64_t round_down(std::int64_t value, std::int64_t multiple) {
  return value - value % multiple;
}

Status check(const std::vector<std::int64_t>& context_lens, std::int64_t row_budget,
             std::int64_t alignment) {
  if (alignment < 1) {
    return invalid("alignment", fmt::format("alignment is {}; wanted at least 1", alignment));
  }
  if (row_budget < alignment) {
    return invalid("row_budget", fmt::format("row_budget is {}; wanted at least the alignment {}",
                                             row_budget, alignment));
  }
  for (std::size_t r = 0; r < context_lens.size(); ++r) {
    if (context_lens[r] >= 0) continue;
    return invalid("context_lens",
                   fmt::format("context_lens[{}] is {}; wanted at least 0", r, context_lens[r]));
  }
  return {};
}

// The chunk being filled.
class Filler {
 public:
  explicit Filler(std::int64_t budget) : budget_(budget) {}

  std::int64_t room() const { return budget_ - rows_; }
  void add(const ChunkPart& part) {
    if (part.end == part.begin) return;
    running_.push_back(part);
    rows_ += part.end - part.begin;
  }
  void close() {
    if (!running_.empty()) chunks_.push_back(std::move(running_));
    running_.clear();
    rows_ = 0;
  }
  std::vector<ContextChunk> take() {
    close();
    return std::move(chunks_);
  }

 private:
  std::int64_t budget_;
  std::int64_t rows_ = 0;
  ContextChunk running_;
  std::vector<ContextChunk> chunks_;
};

}  // namespace

Result<std::vector<ContextChunk>> plan_context_chunks(const std::vector<std::int64_t>& context_lens,
                                                      std::int64_t row_budget,
                                                      std::int64_t alignment) {
  if (Status s = check(context_lens, row_budget, alignment); !s) return s.error();
  Filler filler(row_budget);
  for (std::size_t r = 0; r < context_lens.size(); ++r) {
    const std::int64_t length = context_lens[r];
    const auto request = static_cast<std::int64_t>(r);
    if (length == 0) filler.close();
    std::int64_t begin = 0;
    // A cut lies on a block edge and leaves at least a row, so that every part but a request's last
    // is made of whole blocks. An empty chunk has room for one, so this ends.
    while (length - begin > filler.room()) {
      const std::int64_t rows =
          std::min(round_down(filler.room(), alignment), round_down(length - begin - 1, alignment));
      filler.add({request, begin, begin + rows});
      filler.close();
      begin += rows;
    }
    filler.add({request, begin, length});
  }
  return filler.take();
}

}  // namespace mla::prefill
