// Overlap of strided row blocks. Blocks with the same strides are compared as lattices, in as many
// steps as the shorter of their two dimensions; others row by row, which only views of one buffer
// with unlike strides ever need.
#include "attention/footprint.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace mla::attention {
namespace {

// Products of two 64-bit numbers.
__extension__ using Wide = __int128;

bool fits(Wide value) {
  return value >= std::numeric_limits<std::int64_t>::min() &&
         value <= std::numeric_limits<std::int64_t>::max();
}

Wide floor_div(Wide a, Wide b) {  // b > 0
  const Wide quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

// One dimension of the difference of two lattices: first <= index <= last.
struct Range {
  std::int64_t stride = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// Whether -below < start + e*stride < above for some e of the range.
bool hits(Wide start, Range inner, Wide below, Wide above) {
  if (inner.stride < 0) inner = {-inner.stride, -inner.last, -inner.first};
  if (inner.stride == 0) return start > -below && start < above;
  const Wide least = floor_div(-below - start, inner.stride) + 1;
  const Wide e = std::max<Wide>(least, inner.first);
  return e <= inner.last && start + e * inner.stride < above;
}

bool lattices_meet(const RowBlock& a, const RowBlock& b) {
  Range outer{a.token_stride, -(b.tokens - 1), a.tokens - 1};
  Range inner{a.head_stride, -(b.heads - 1), a.heads - 1};
  if (outer.last - outer.first > inner.last - inner.first) std::swap(outer, inner);
  const Wide start = Wide{a.base} - b.base;
  for (std::int64_t d = outer.first; d <= outer.last; ++d) {
    if (hits(start + Wide{d} * outer.stride, inner, a.width, b.width)) return true;
  }
  return false;
}

std::vector<std::int64_t> row_starts(const RowBlock& block) {
  std::vector<std::int64_t> starts;
  starts.reserve(static_cast<std::size_t>(block.tokens * block.heads));
  for (std::int64_t t = 0; t < block.tokens; ++t) {
    for (std::int64_t h = 0; h < block.heads; ++h) {
      starts.push_back(block.base + t * block.token_stride + h * block.head_stride);
    }
  }
  std::sort(starts.begin(), starts.end());
  return starts;
}

bool rows_meet(const RowBlock& a, const RowBlock& b) {
  const std::vector<std::int64_t> starts = row_starts(a);
  for (std::int64_t t = 0; t < b.tokens; ++t) {
    for (std::int64_t h = 0; h < b.heads; ++h) {
      const std::int64_t start = b.base + t * b.token_stride + h * b.head_stride;
      const auto next = std::upper_bound(starts.begin(), starts.end(), start - a.width);
      if (next != starts.end() && *next < start + b.width) return true;
    }
  }
  return false;
}

Footprint by_address(Footprint blocks) {
  std::sort(blocks.begin(), blocks.end(),
            [](const RowBlock& a, const RowBlock& b) { return a.low < b.low; });
  return blocks;
}

// The blocks that reach beyond `low` stay; whether one of them meets `block`.
bool meets_active(Footprint* active, const RowBlock& block) {
  std::erase_if(*active, [&](const RowBlock& other) { return other.high <= block.low; });
  return std::any_of(active->begin(), active->end(),
                     [&](const RowBlock& other) { return overlap(other, block); });
}

}  // namespace

std::optional<RowBlock> make_block(const BlockSpec& spec) {
  const Wide token_reach = Wide{spec.tokens - 1} * spec.token_stride;
  const Wide head_reach = Wide{spec.heads - 1} * spec.head_stride;
  const Wide low =
      Wide{spec.offset} + std::min<Wide>(token_reach, 0) + std::min<Wide>(head_reach, 0);
  const Wide high = Wide{spec.offset} + std::max<Wide>(token_reach, 0) +
                    std::max<Wide>(head_reach, 0) + spec.width;
  if (!fits(low) || !fits(high) || !fits(token_reach) || !fits(head_reach)) return std::nullopt;
  const Wide address = reinterpret_cast<std::uintptr_t>(spec.data);
  const Wide size = spec.element_bytes;
  // An unused stride may be anything.
  const Wide token_stride = spec.tokens > 1 ? Wide{spec.token_stride} * size : 0;
  const Wide head_stride = spec.heads > 1 ? Wide{spec.head_stride} * size : 0;
  const Wide first = address + low * size;
  const Wide end = address + high * size;
  const Wide base = address + spec.offset * size;
  if (first < 0 || !fits(end) || !fits(base) || !fits(token_stride) || !fits(head_stride)) {
    return std::nullopt;
  }
  RowBlock block;
  block.base = static_cast<std::int64_t>(base);
  block.tokens = spec.tokens;
  block.token_stride = static_cast<std::int64_t>(token_stride);
  block.heads = spec.heads;
  block.head_stride = static_cast<std::int64_t>(head_stride);
  block.width = static_cast<std::int64_t>(Wide{spec.width} * size);
  block.low = static_cast<std::int64_t>(first);
  block.high = static_cast<std::int64_t>(end);
  return block;
}

bool overlaps_itself(const RowBlock& block) {
  Range outer{block.token_stride, 0, block.tokens - 1};
  Range inner{block.head_stride, 0, block.heads - 1};
  if (outer.last > inner.last) std::swap(outer, inner);
  const auto magnitude = [](std::int64_t stride) {
    return stride < 0 ? -Wide{stride} : Wide{stride};
  };
  for (const Range& range : {outer, inner}) {
    if (range.last > 0 && magnitude(range.stride) < block.width) return true;
  }
  const auto nested = [&](const Range& far, const Range& near) {
    return magnitude(far.stride) >= magnitude(near.stride) * near.last + block.width;
  };
  if (outer.last == 0 || inner.last == 0 || nested(outer, inner) || nested(inner, outer)) {
    return false;
  }
  const Range both_ways{inner.stride, -inner.last, inner.last};
  for (std::int64_t d = 1; d <= outer.last; ++d) {
    if (hits(Wide{d} * outer.stride, both_ways, block.width, block.width)) return true;
  }
  return false;
}

bool overlap(const RowBlock& first, const RowBlock& second) {
  if (first.high <= second.low || second.high <= first.low) return false;
  RowBlock a = first;
  RowBlock b = second;
  // The stride of a single row is free.
  if (a.tokens == 1) a.token_stride = b.token_stride;
  if (b.tokens == 1) b.token_stride = a.token_stride;
  if (a.heads == 1) a.head_stride = b.head_stride;
  if (b.heads == 1) b.head_stride = a.head_stride;
  if (a.token_stride == b.token_stride && a.head_stride == b.head_stride) {
    return lattices_meet(a, b);
  }
  const auto collapsed = [](RowBlock block) {  // repeated rows count once
    if (block.token_stride == 0) block.tokens = 1;
    if (block.head_stride == 0) block.heads = 1;
    return block;
  };
  return rows_meet(collapsed(a), collapsed(b));
}

bool overlaps_itself(const Footprint& blocks) {
  Footprint active;
  for (const RowBlock& block : by_address(blocks)) {
    if (overlaps_itself(block) || meets_active(&active, block)) return true;
    active.push_back(block);
  }
  return false;
}

bool overlap(const Footprint& a, const Footprint& b) {
  const auto reach = [](const Footprint& blocks) {
    std::int64_t low = std::numeric_limits<std::int64_t>::max();
    std::int64_t high = std::numeric_limits<std::int64_t>::min();
    for (const RowBlock& block : blocks) {
      low = std::min(low, block.low);
      high = std::max(high, block.high);
    }
    return std::pair(low, high);
  };
  const auto [a_low, a_high] = reach(a);
  const auto [b_low, b_high] = reach(b);
  if (a_high <= b_low || b_high <= a_low) return false;
  const Footprint left = by_address(a);
  const Footprint right = by_address(b);
  Footprint active_left, active_right;
  std::size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    const bool from_left = j == right.size() || (i < left.size() && left[i].low <= right[j].low);
    const RowBlock& block = from_left ? left[i++] : right[j++];
    if (meets_active(from_left ? &active_right : &active_left, block)) return true;
    (from_left ? active_left : active_right).push_back(block);
  }
  return false;
}

}  // namespace mla::attention
