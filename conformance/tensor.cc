// Tensors in every layout, with poison around their rows.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "batch.h"
#include "number.h"

namespace mla::conformance {
namespace {

// Elements between rows and tokens of kGapped: odd, so that rows start at odd places.
constexpr std::int64_t kRowGap = 3;
constexpr std::int64_t kTokenGap = 5;
// Elements before and behind a tensor on the heap. Odd for the same reason.
constexpr std::int64_t kLead = 33;
constexpr std::int64_t kTrail = 65;
// Rows of padding behind every request of kDense.
constexpr std::int64_t kPadding = 2;

}  // namespace

std::string_view name(Layout layout) {
  switch (layout) {
    case Layout::kTokenMajor:
      return "token_major";
    case Layout::kHeadMajor:
      return "head_major";
    case Layout::kGapped:
      return "gapped";
    case Layout::kKvProjection:
      return "kv_projection";
    case Layout::kDense:
      return "dense";
    case Layout::kPermuted:
      return "permuted";
    case Layout::kSharedHeads:
      return "shared_heads";
    case Layout::kLatent:
      return "latent";
  }
  return "invalid";
}

Memory::Memory(std::size_t bytes, Place place) {
  if (place == Place::kHeap) {
    owner_ = std::shared_ptr<void>(std::malloc(bytes + 1), std::free);
    data_ = static_cast<std::byte*>(owner_.get());
    return;
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t used = (bytes + page - 1) / page * page;
  const std::size_t all = used + 2 * page;
  void* mapped = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;
  owner_ = std::shared_ptr<void>(mapped, [all](void* memory) { ::munmap(memory, all); });
  std::byte* inside = static_cast<std::byte*>(mapped) + page;
  if (::mprotect(inside, used, PROT_READ | PROT_WRITE) != 0) return;
  data_ = place == Place::kPageEnd ? inside + (used - bytes) : inside;
}

Tensor::Tensor(const TensorSpec& spec) : spec_(spec) {
  place_rows();
  std::int64_t reach = 0;
  for (std::size_t r = 0; r < spec_.lengths.size(); ++r) {
    if (spec_.lengths[r] == 0) continue;
    reach = std::max(reach, starts_[r] + (spec_.lengths[r] - 1) * token_stride_ +
                                (spec_.heads - 1) * head_stride_ + spec_.width);
  }
  const bool heap = spec_.place == Place::kHeap;
  first_ = heap ? kLead : 0;
  bytes_ = static_cast<std::size_t>((first_ + reach + (heap ? kTrail : 0)) * size_of(spec_.dtype));
  memory_ = Memory(bytes_, spec_.place);
  paint(std::byte{0xff}, std::byte{0xff});
}

void Tensor::place_rows() {
  const std::int64_t width = spec_.width;
  const std::int64_t heads = spec_.heads;
  const auto& lengths = spec_.lengths;
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  head_stride_ = width;
  token_stride_ = heads * width;
  std::int64_t request_stride = 0;  // 0: one request behind the other
  switch (spec_.layout) {
    case Layout::kHeadMajor:
      head_stride_ = tokens * width;
      token_stride_ = width;
      break;
    case Layout::kKvProjection:
    case Layout::kGapped:
      // The first part of a value's projection row is as wide as the value.
      head_stride_ = spec_.value ? 2 * width : width + kRowGap;
      token_stride_ = heads * head_stride_ + (spec_.value ? 0 : kTokenGap);
      break;
    case Layout::kDense: {
      const auto longest = std::max_element(lengths.begin(), lengths.end());
      const std::int64_t padded = (longest == lengths.end() ? 0 : *longest) + kPadding;
      head_stride_ = padded * width;
      token_stride_ = width;
      request_stride = heads * head_stride_;
      break;
    }
    case Layout::kSharedHeads:
    case Layout::kLatent:
      head_stride_ = 0;
      token_stride_ = width;
      break;
    default:
      break;
  }
  std::int64_t before = 0;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    const std::int64_t place =
        spec_.layout == Layout::kPermuted ? tokens - before - lengths[r] : before;
    starts_.push_back(request_stride != 0 ? static_cast<std::int64_t>(r) * request_stride
                                          : place * token_stride_);
    before += lengths[r];
  }
}

std::byte* Tensor::row(std::int64_t r, std::int64_t i, std::int64_t h) const {
  const std::int64_t element =
      first_ + starts_[static_cast<std::size_t>(r)] + i * token_stride_ + h * head_stride_;
  return memory_.data() + element * size_of(spec_.dtype);
}

double Tensor::get(std::int64_t r, std::int64_t i, std::int64_t h, std::int64_t e) const {
  return load(spec_.dtype, row(r, i, h) + e * size_of(spec_.dtype));
}

void Tensor::set(std::int64_t r, std::int64_t i, std::int64_t h, std::int64_t e, double value) {
  store(spec_.dtype, value, row(r, i, h) + e * size_of(spec_.dtype));
}

attention::ConstRows Tensor::rows() const {
  const bool offsets = spec_.layout == Layout::kDense || spec_.layout == Layout::kPermuted;
  return {memory_.data() + first_ * size_of(spec_.dtype), token_stride_, head_stride_,
          offsets ? starts_.data() : nullptr};
}

attention::Rows Tensor::writable() const {
  const attention::ConstRows read = rows();
  return {const_cast<void*>(read.data), read.token_stride, read.head_stride, read.request_offsets};
}

template <class Visit>
void Tensor::for_each_row(Visit&& visit) const {
  for (std::size_t r = 0; r < spec_.lengths.size(); ++r) {
    for (std::int64_t i = 0; i < spec_.lengths[r]; ++i) {
      for (std::int64_t h = 0; h < spec_.heads; ++h) {
        visit(row(static_cast<std::int64_t>(r), i, h));
      }
    }
  }
}

void Tensor::paint(std::byte covered, std::byte gaps) {
  std::fill_n(memory_.data(), bytes_, gaps);
  for_each_row([&](std::byte* row) { std::fill_n(row, row_bytes(), covered); });
}

bool Tensor::gaps_are(std::byte gaps) const {
  std::vector<bool> covered(bytes_, false);
  for_each_row([&](const std::byte* row) {
    const auto at = covered.begin() + (row - memory_.data());
    std::fill(at, at + row_bytes(), true);
  });
  for (std::size_t at = 0; at < bytes_; ++at) {
    if (!covered[at] && memory_.data()[at] != gaps) return false;
  }
  return true;
}

bool Tensor::is_all(std::byte value) const {
  return std::all_of(memory_.data(), memory_.data() + bytes_,
                     [value](std::byte byte) { return byte == value; });
}

Tensor Tensor::narrowed(std::int64_t width) const {
  Tensor view = *this;
  view.spec_.width = width;
  return view;
}

}  // namespace mla::conformance
