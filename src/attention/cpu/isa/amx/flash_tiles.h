// Flash attention on matrix tiles, generic over Isa: the instructions (amx.cc) or their emulation
// (emulated.h). One group of 32 query rows meets a panel in stripes of 256 keys:
//
//   for each span of 32 keys:   S = Q K^T        4 tiles, Dq/32 x 4 multiplies
//                               P = exp2(c S - m)    while the next span's S is multiplied
//   for each 32 dims of v:      O += P V         4 tiles, loaded and stored once a stripe
//
// Scores are taken relative to a maximum m that is known before the span is (FlashAttention's
// running maximum, but stale): no reduction over a row is needed. A row that outgrows its m by more
// than 2^8 is noticed by its sum, after which it gets a new m and the span is done again.
#pragma once

#include <cmath>
#include <limits>

#include "attention/cpu/isa/amx/layout.h"
#include "attention/cpu/isa/amx/tile_product.h"

namespace mla::attention::cpu {
namespace {

inline constexpr float kLog2E = 1.44269504088896341f;
// exp2(f) on [0, 1): relative error 8.6e-5, exact at 0; bf16 rounds by 2e-3.
inline constexpr float kExp2C1 = 0.69511695f;
inline constexpr float kExp2C2 = 0.22764428f;
inline constexpr float kExp2C3 = 0.0770677f;
// A span is done again when two weights of a row add up to more than this, 2^8; one of them is then
// at least 2^7, so that its row has grown by more than kRebaseGrowth in log2.
inline constexpr float kMostWeight = 256.0f;
inline constexpr float kRebaseGrowth = 6.0f;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The rows of one span's softmax, done a few at a time.
template <class Isa>
struct SpanSoftmax {
  using Vec = typename Isa::Vec;

  const std::byte* s = nullptr;         // two tiles of each of two columns of 16 keys
  std::byte* p = nullptr;               // two tiles
  const float* m = nullptr;             // [32]
  const std::byte* l_in = nullptr;      // [32][16]
  std::byte* l_out = nullptr;           // [32][16]
  const std::uint32_t* seen = nullptr;  // which keys row r sees, a bit each, [32]; null: all
  Vec scale = Isa::set1(0.0f);          // with log2(e)
  Vec most = Isa::set1(0.0f);           // largest sum of two weights so far, lane by lane
  std::int64_t row = kGroupRows;

  std::int64_t left() const { return kGroupRows - row; }

  [[gnu::always_inline]] void run(std::int64_t count) {
    for (; count > 0 && row < kGroupRows; --count) one();
  }

  [[gnu::always_inline]] void one() {
    const std::int64_t at = row * 64;
    const Vec base = Isa::set1(m[row]);
    Vec x0 = Isa::fmsub(Isa::load(s + at), scale, base);
    Vec x1 = Isa::fmsub(Isa::load(s + kCellBytes + at), scale, base);
    if (seen) {
      x0 = Isa::select(seen[row] & 0xffff, x0, Isa::set1(-kInfinity));
      x1 = Isa::select(seen[row] >> 16, x1, Isa::set1(-kInfinity));
    }
    const Vec p0 = exp2(x0);
    const Vec p1 = exp2(x1);
    Isa::store_bf16(p + at, p0, p1);
    const Vec sum = Isa::add(p0, p1);
    Isa::store(l_out + at, Isa::add(Isa::load(l_in + at), sum));
    most = Isa::max(sum, most);
    ++row;
  }

  [[gnu::always_inline]] static Vec exp2(Vec x) {
    const Vec f = Isa::fraction(x);
    Vec y = Isa::fma(Isa::set1(kExp2C3), f, Isa::set1(kExp2C2));
    y = Isa::fma(y, f, Isa::set1(kExp2C1));
    y = Isa::fma(y, f, Isa::set1(1.0f));
    return Isa::scale_by_exp2_floor(y, x);
  }
};

template <class Isa>
class GroupStep {
  using Vec = typename Isa::Vec;

 public:
  GroupStep(const Geometry& geometry, float scale, void* scratch)
      : geometry_(geometry), scratch_(static_cast<Scratch*>(scratch)), product_(scratch_->spill) {
    softmax_.scale = Isa::set1(scale * kLog2E);
  }

  // A group's rows against all keys of a panel; `visible` as in Step, or null.
  void run(const std::byte* queries, const Step& step, const std::int32_t* visible,
           std::int64_t rows, std::byte* state) {
    visible_ = visible;
    rows_ = rows;
    o_ = state;
    stats_ = reinterpret_cast<GroupStats*>(state + geometry_.group_o_bytes());
    softmax_.m = stats_->m;
    const std::byte* keys = static_cast<const std::byte*>(step.panel);
    const std::byte* values = keys + geometry_.keys_bytes();
    const std::int64_t end = visible ? visible[rows - 1] : step.keys;
    for (std::int64_t key = 0; key < end; key += kStripe) {
      const std::int64_t count = end - key < kStripe ? end - key : kStripe;
      const std::int64_t first = key / kSpan;
      weigh(queries, keys + first * geometry_.qk_cells * kCellBytes, key, count);
      if (step.panel_finite) {
        add_values(values + first * kCellBytes, (count + kSpan - 1) / kSpan);
      } else {
        add_values_one_by_one(values + first * kCellBytes, key, count);
      }
    }
  }

  // The tiles of the last product go where they belong.
  void flush() { product_.flush(); }

 private:
  // P of a stripe.
  void weigh(const std::byte* queries, const std::byte* keys, std::int64_t key,
             std::int64_t count) {
    for (std::int64_t j = 0; j * kSpan < count; ++j) {
      product_.template multiply<false>(queries, keys, geometry_.qk_cells, scratch_->s[j & 1],
                                        softmax_);
      keys += geometry_.qk_cells * kCellBytes;
      if (j > 0) end_span();
      begin_span(j, key + j * kSpan, count - j * kSpan);
    }
    product_.flush();
    softmax_.run(kGroupRows);
    end_span();
  }

  void add_values(const std::byte* values, std::int64_t spans) {
    for (std::int64_t d = 0; d < geometry_.v_cells; ++d) {
      product_.template multiply<true>(scratch_->p[0], values, spans, o_ + d * 2 * kCellBytes,
                                       softmax_);
      values += geometry_.panel_spans * kCellBytes;
    }
  }

  void begin_span(std::int64_t index, std::int64_t first_key, std::int64_t keys_left) {
    span_ = index;
    softmax_.row = 0;
    softmax_.s = scratch_->s[index & 1];
    softmax_.p = scratch_->p[index];
    softmax_.l_in = reinterpret_cast<const std::byte*>(stats_->l[stats_->turn]);
    softmax_.l_out = reinterpret_cast<std::byte*>(stats_->l[stats_->turn ^ 1]);
    softmax_.most = Isa::set1(0.0f);
    const bool all = keys_left >= kSpan && (!visible_ || visible_[0] >= first_key + kSpan);
    softmax_.seen = all ? nullptr : scratch_->seen;
    if (all) return;
    const std::int64_t keys = keys_left < kSpan ? keys_left : kSpan;
    for (std::int64_t r = 0; r < kGroupRows; ++r) {
      std::int64_t n = keys;
      if (visible_) {
        n = visible_[r < rows_ ? r : rows_ - 1] - first_key;
        n = n < 0 ? 0 : n > keys ? keys : n;
      }
      scratch_->seen[r] = n >= 32 ? 0xffffffffu : (std::uint32_t{1} << n) - 1;
    }
  }

  void end_span() {
    if (Isa::any_above(softmax_.most, kMostWeight)) redo_span();
    stats_->turn ^= 1;
  }

  // ---- Rare: a row has outgrown its m --------------------------------------------------------

  // Such rows get the true maximum so far, and what has been summed follows.
  void redo_span() {
    for (std::int64_t r = 0; r < kGroupRows; ++r) {
      const std::uint32_t bits = softmax_.seen ? softmax_.seen[r] : 0xffffffffu;
      const Vec never = Isa::set1(-kInfinity);
      const Vec s0 = Isa::mul(Isa::load(softmax_.s + r * 64), softmax_.scale);
      const Vec s1 = Isa::mul(Isa::load(softmax_.s + kCellBytes + r * 64), softmax_.scale);
      const float most =
          Isa::reduce_max(Isa::max(Isa::select(bits & 0xffff, s0, never),
                                   Isa::max(Isa::select(bits >> 16, s1, never), never)));
      const float before = stats_->m[r];
      if (!(most > before + kRebaseGrowth)) continue;
      stats_->m[r] = most;
      if (before != -kInfinity) rescale(r, ::exp2f(before - most));
    }
    softmax_.row = 0;
    softmax_.run(kGroupRows);
  }

  void rescale(std::int64_t r, float factor) {
    const Vec w = Isa::set1(factor);
    const auto scale = [w](std::byte* x) { Isa::store(x, Isa::mul(Isa::load(x), w)); };
    scale(reinterpret_cast<std::byte*>(stats_->l[stats_->turn][r]));
    for (std::int64_t j = 0; j < span_; ++j) {
      std::byte* p = scratch_->p[j] + r * 64;
      const Vec p0 = Isa::mul(Isa::load_bf16(p), w);
      const Vec p1 = Isa::mul(Isa::load_bf16(p + 32), w);
      Isa::store_bf16(p, p0, p1);
    }
    for (std::int64_t d = 0; d < 2 * geometry_.v_cells; ++d) scale(o_ + d * kCellBytes + r * 64);
  }

  // Some v of this panel is NaN or inf, and 0 times it would spoil rows that do not see it: only
  // what a row sees is multiplied.
  void add_values_one_by_one(const std::byte* values, std::int64_t key, std::int64_t count) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::int64_t seen = visible_ ? visible_[r] - key : count;
      for (std::int64_t j = 0; j < (seen < count ? seen : count); ++j) {
        const float p = Isa::bf16_at(scratch_->p[j / kSpan] + r * 64, j % kSpan);
        const std::byte* pair = values + j / kSpan * kCellBytes + j % kSpan / 2 * 64;
        for (std::int64_t d = 0; d < 2 * geometry_.v_cells; ++d) {
          const std::byte* v =
              pair + d / 2 * geometry_.panel_spans * kCellBytes + d % 2 * kTileBytes;
          auto* o = reinterpret_cast<float*>(o_ + d * kCellBytes + r * 64);
          for (std::int64_t i = 0; i < 16; ++i) o[i] += p * Isa::bf16_at(v, 2 * i + j % 2);
        }
      }
    }
  }

  const Geometry& geometry_;
  Scratch* scratch_;
  TileProduct<Isa> product_;
  SpanSoftmax<Isa> softmax_;
  // the group at hand
  const std::int32_t* visible_ = nullptr;
  std::int64_t rows_ = 0;
  std::byte* o_ = nullptr;
  GroupStats* stats_ = nullptr;
  std::int64_t span_ = 0;  // whose softmax is under way
};

}  // namespace
}  // namespace mla::attention::cpu
