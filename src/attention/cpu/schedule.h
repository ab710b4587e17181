// Who computes what: workers take units, heaviest first, and when there are none left they take
// items from the back of units that others are busy with. No barriers, and nobody waits for a
// worker that has not started, so workers may also run one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace mla::attention::cpu {

// Items [first, end) of a unit, taken from either side.
class ItemRange {
 public:
  void open(std::uint32_t count) {
    range_.store(static_cast<std::uint64_t>(count) << 32, std::memory_order_release);
  }
  // The next item or -1.
  std::int64_t take_front() { return take(true); }
  std::int64_t take_back() { return take(false); }
  std::int64_t left() const {
    const std::uint64_t range = range_.load(std::memory_order_relaxed);
    return static_cast<std::int64_t>(range >> 32) - static_cast<std::int64_t>(range & 0xffffffffu);
  }

 private:
  std::int64_t take(bool front) {
    std::uint64_t range = range_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t first = range & 0xffffffffu;
      const std::uint64_t end = range >> 32;
      if (first >= end) return -1;
      const std::uint64_t next = front ? range + 1 : range - (std::uint64_t{1} << 32);
      if (range_.compare_exchange_weak(range, next, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        return static_cast<std::int64_t>(front ? first : end - 1);
      }
    }
  }

  std::atomic<std::uint64_t> range_{0};
};

// A packed panel that several workers need and one of them packs.
class PanelState {
 public:
  void reset() { state_.store(kEmpty, std::memory_order_relaxed); }
  // Calls pack() -> whether v is finite, unless somebody has done so; returns what it said.
  template <class Pack>
  bool ready(Pack&& pack) {
    std::uint8_t state = state_.load(std::memory_order_acquire);
    if (state == kEmpty &&
        state_.compare_exchange_strong(state, kPacking, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      const bool finite = pack();
      state_.store(finite ? kFinite : kNotFinite, std::memory_order_release);
      return finite;
    }
    while (state == kPacking) {  // by a worker that is running: it will be done in microseconds
      std::this_thread::yield();
      state = state_.load(std::memory_order_acquire);
    }
    return state == kFinite;
  }

 private:
  enum : std::uint8_t { kEmpty, kPacking, kFinite, kNotFinite };
  std::atomic<std::uint8_t> state_{kEmpty};
};

// The unit a worker has taken, open to others. While units are left nobody steals, so a worker
// that goes on to its next unit leaves nobody behind in the old one.
struct alignas(64) Lane {
  ItemRange items;
  std::int64_t unit = 0;
  std::atomic<std::int64_t> unfinished{0};  // items whose partial results are still to come
  PanelState* panel_states = nullptr;       // of the unit's shared panels
  std::byte* panels = nullptr;
  float* partials = nullptr;
};

// The units of a call, handed out in order.
class Units {
 public:
  explicit Units(std::int64_t count) : count_(count) {}
  // The next unit or -1.
  std::int64_t take() {
    if (next_.load(std::memory_order_relaxed) >= count_) return -1;
    const std::int64_t unit = next_.fetch_add(1, std::memory_order_acq_rel);
    return unit < count_ ? unit : -1;
  }
  // A taken unit has been opened in its worker's lane.
  void opened() { opened_.fetch_add(1, std::memory_order_acq_rel); }
  bool all_opened() const { return opened_.load(std::memory_order_acquire) >= count_; }

 private:
  const std::int64_t count_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> opened_{0};
};

}  // namespace mla::attention::cpu
