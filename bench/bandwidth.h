// The other yardstick beside a row's peak probe: how fast one core streams memory that no longer
// fits its second cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mla/core.h"

namespace mla::bench {

// Plain loads from beginning to end, fetched a page ahead, of a buffer of `bytes` or kLeastBytes
// where that is more. Where the last cache is larger than the buffer it is that cache's bandwidth:
// give the size of the data in question.
class BandwidthProbe {
 public:
  static constexpr std::int64_t kLeastBytes = std::int64_t{16} << 20;  // several times any L2

  static Result<BandwidthProbe> make(std::int64_t bytes);

  std::int64_t bytes() const { return kSliceBytes * static_cast<std::int64_t>(slices_); }
  // GB/s of the calling thread by its CPU time: of one pass, the best slice of 1 MiB, so that a
  // neighbour's slice does not count.
  double gigabytes_per_second() const;

 private:
  static constexpr std::int64_t kSliceBytes = std::int64_t{1} << 20;

  std::unique_ptr<std::uint64_t[]> words_;
  std::size_t slices_ = 0;
};

}  // namespace mla::bench
