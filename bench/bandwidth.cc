// Slices of one pass over the buffer, each timed by itself.
#include "bandwidth.h"

#include <time.h>

#include <algorithm>
#include <new>
#include <string>

namespace mla::bench {
namespace {

constexpr std::size_t kLineWords = 8;
constexpr std::size_t kWordsAhead = 4096 / sizeof(std::uint64_t);  // hardware stops at a page's end

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Eight sums, so that no load waits for an addition.
std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[kLineWords] = {};
  for (std::size_t i = 0; i < count; i += kLineWords) {
    __builtin_prefetch(words + i + kWordsAhead);
    for (std::size_t j = 0; j < kLineWords; ++j) sums[j] += words[i + j];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

Result<BandwidthProbe> BandwidthProbe::make(std::int64_t bytes) {
  BandwidthProbe probe;
  const std::int64_t wanted = std::max(bytes, kLeastBytes);
  probe.slices_ = static_cast<std::size_t>((wanted + kSliceBytes - 1) / kSliceBytes);
  const std::size_t words = static_cast<std::size_t>(probe.bytes()) / sizeof(std::uint64_t);
  probe.words_.reset(new (std::nothrow) std::uint64_t[words]);
  if (probe.words_ == nullptr) {
    return Error{ErrorCode::kOutOfMemory, "",
                 "the bandwidth probe needs " + std::to_string(probe.bytes()) + " bytes, got none"};
  }
  // Written once: pages that were never written share one page of zeros.
  for (std::size_t i = 0; i < words; ++i) probe.words_[i] = i;
  return probe;
}

double BandwidthProbe::gigabytes_per_second() const {
  constexpr std::size_t kSliceWords = kSliceBytes / sizeof(std::uint64_t);
  volatile std::uint64_t sink = 0;
  double best = 0.0;
  for (std::size_t slice = 0; slice < slices_; ++slice) {
    const double begin = thread_seconds();
    sink = sink + sum_of(words_.get() + slice * kSliceWords, kSliceWords);
    const double seconds = thread_seconds() - begin;
    if (seconds > 0.0) best = std::max(best, static_cast<double>(kSliceBytes) / seconds * 1e-9);
  }
  return best;
}

}  // namespace mla::bench
