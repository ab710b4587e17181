// Which bytes a strided tensor touches, and whether two tensors share any: exact for every stride
// and offset, since views interleave (v beside k in one projection, heads beside tokens).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace mla::attention {

// Rows of `width` bytes that start at base + t*token_stride + h*head_stride, all in bytes.
struct RowBlock {
  std::int64_t base = 0;
  std::int64_t tokens = 0;
  std::int64_t token_stride = 0;
  std::int64_t heads = 0;
  std::int64_t head_stride = 0;
  std::int64_t width = 0;
  std::int64_t low = 0;   // the first byte
  std::int64_t high = 0;  // behind the last one
};

// A block in elements from an address. Nothing when an address would leave 64 bits.
struct BlockSpec {
  const void* data = nullptr;
  std::int64_t offset = 0;
  std::int64_t tokens = 0;
  std::int64_t token_stride = 0;
  std::int64_t heads = 0;
  std::int64_t head_stride = 0;
  std::int64_t width = 0;
  std::int64_t element_bytes = 0;
};
std::optional<RowBlock> make_block(const BlockSpec& spec);

// Two rows of one block share a byte.
bool overlaps_itself(const RowBlock& block);
// A row of one shares a byte with a row of the other.
bool overlap(const RowBlock& a, const RowBlock& b);

// The blocks of one tensor.
using Footprint = std::vector<RowBlock>;
bool overlaps_itself(const Footprint& blocks);
bool overlap(const Footprint& a, const Footprint& b);

}  // namespace mla::attention
