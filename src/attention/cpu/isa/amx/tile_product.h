// The one product everything here is made of: two A tiles times two B tiles, over a row of cells.
// Each loaded tile is used twice and four independent sums hide the latency of a multiply.
//
// A multiply takes 16 cycles in which 16 vector instructions are free, so a filler (rows of a
// softmax, rows to be rounded) is dealt out between multiplies, in slots: four a step. The tiles of
// a product are stored while the next one has begun: a store straight after its product stands in
// the way (measured on Emerald Rapids, Dq = 192: 84 % of peak, against 94 % this way).
#pragma once

#include "attention/cpu/isa/amx/layout.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
class TileProduct {
 public:
  // 4 KiB that may be overwritten.
  explicit TileProduct(std::byte* spill) : spill_(spill), pending_(spill) {}

  // C = A B, or C += A B. C is two columns of two tiles each; it reaches memory when the next
  // product has started, or with flush(). When the first step has stored the tiles of the product
  // before, started() gives a filler, which may read them and is dealt out over the other steps;
  // what is left of it is returned. Fillers are values: a struct copied from memory that was just
  // written waits for every store before it, tiles included.
  template <bool kAccumulate, class Started>
  [[gnu::always_inline]] auto multiply(const std::byte* a, const std::byte* b, std::int64_t steps,
                                       std::byte* c, Started started) {
    tiles_.template load<4>(a);
    tiles_.template load_once<6>(b);
    start<kAccumulate, 0>(c);
    tiles_.template multiply<0, 4, 6>();
    tiles_.template load_once<7>(b + kTileBytes);
    start<kAccumulate, 2>(c);
    tiles_.template multiply<2, 4, 7>();
    tiles_.template load<5>(a + kTileBytes);
    start<kAccumulate, 1>(c);
    tiles_.template multiply<1, 5, 6>();
    start<kAccumulate, 3>(c);
    tiles_.template multiply<3, 5, 7>();
    pending_ = c;
    auto filler = started();
    for (std::int64_t i = 1; i < steps; ++i) {
      a += kCellBytes;
      b += kCellBytes;
      if (filler.fills_step()) {
        step<true>(a, b, filler);
        filler.advance_step();
      } else {
        step<false>(a, b, filler);
      }
    }
    return filler;
  }

  // The same with nothing between the multiplies.
  template <bool kAccumulate>
  [[gnu::always_inline]] void multiply(const std::byte* a, const std::byte* b, std::int64_t steps,
                                       std::byte* c) {
    multiply<kAccumulate>(a, b, steps, c, [] { return Nothing(); });
  }

  // Stores the tiles of the last product.
  void flush() {
    tiles_.template store<0>(pending_);
    tiles_.template store<1>(pending_ + kTileBytes);
    tiles_.template store<2>(pending_ + 2 * kTileBytes);
    tiles_.template store<3>(pending_ + 3 * kTileBytes);
    pending_ = spill_;
  }

 private:
  struct Nothing {
    static constexpr bool fills_step() { return false; }
    template <int kSlot>
    void run() {}
    void advance_step() {}
  };

  template <bool kFill, class Filler>
  [[gnu::always_inline]] void step(const std::byte* a, const std::byte* b, Filler& filler) {
    tiles_.template load<4>(a);
    tiles_.template load_once<6>(b);
    tiles_.template multiply<0, 4, 6>();
    if constexpr (kFill) filler.template run<0>();
    tiles_.template load_once<7>(b + kTileBytes);
    tiles_.template multiply<2, 4, 7>();
    if constexpr (kFill) filler.template run<1>();
    tiles_.template load<5>(a + kTileBytes);
    tiles_.template multiply<1, 5, 6>();
    if constexpr (kFill) filler.template run<2>();
    tiles_.template multiply<3, 5, 7>();
    if constexpr (kFill) filler.template run<3>();
  }

  template <bool kAccumulate, int kTile>
  [[gnu::always_inline]] void start(const std::byte* c) {
    tiles_.template store<kTile>(pending_ + kTile * kTileBytes);
    if constexpr (kAccumulate) {
      tiles_.template load<kTile>(c + kTile * kTileBytes);
    } else {
      tiles_.template zero<kTile>();
    }
  }

  typename Isa::Tiles tiles_;
  std::byte* spill_;
  std::byte* pending_;  // where the tiles of the last product belong
};

}  // namespace
}  // namespace mla::attention::cpu
