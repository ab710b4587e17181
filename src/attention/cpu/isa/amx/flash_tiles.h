// Flash attention on matrix tiles, generic over Isa: the instructions (amx.cc) or their emulation
// (emulated.h). One group of 32 query rows meets a panel in stripes of 256 keys:
//
//   for each span of 32 keys:   S = Q K^T        4 tiles, Dq/32 x 4 multiplies
//                               P = exp2(c S + b)    while the next span's S is multiplied
//   for each 32 dims of v:      O += P V         4 tiles, loaded and stored once a stripe
//
// Scores are taken relative to a base that is known before the span is (FlashAttention's running
// maximum, but stale): no reduction over a row is needed. A row that outgrows its base by more than
// 2^8 is noticed by its sum, after which it gets a new one and the span is done again.
#pragma once

#include <cmath>
#include <limits>

#include "attention/cpu/isa/amx/layout.h"
#include "attention/cpu/isa/amx/tile_product.h"

namespace mla::attention::cpu {
namespace {

inline constexpr float kLog2E = 1.44269504088896341f;
// Weights are kWeightScale times what they stand for, so that the polynomial for 2^f on [0, 1) has
// a leading coefficient of 1 and starts with an addition: ((f + a) f + b) f + kWeightScale.
// Relative error 8.8e-5, exact at 0; bf16 holds kWeightScale and rounds by 2e-3.
inline constexpr float kWeightScale = 13.0f;
inline constexpr double kLogWeightScale = 2.56494935746153673605;
inline constexpr float kExp2A = 2.9621391f;
inline constexpr float kExp2B = 9.03558f;
// A span is done again when two weights of a row add up to more than this, 2^8; one of them is then
// at least 2^7, so that its row has grown by more than kRebaseGrowth in log2.
inline constexpr float kMostWeight = 256.0f * kWeightScale;
inline constexpr float kRebaseGrowth = 6.0f;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The rows of one span's softmax, done a few at a time. What limits a step is the number of
// instructions beside its multiplies: the rows are unrolled, and no operand is overwritten that is
// needed again.
template <class Isa>
struct SpanSoftmax {
  using Vec = typename Isa::Vec;
  static constexpr std::int64_t kRowsASlot = 2;

  // Of the next row.
  const std::byte* s = nullptr;         // two tiles of each of two columns of 16 keys
  std::byte* p = nullptr;               // two tiles
  const float* base = nullptr;          // [32]
  const std::byte* l_in = nullptr;      // [32][16]
  std::byte* l_out = nullptr;           // [32][16]
  const std::uint32_t* seen = nullptr;  // which keys row r sees, a bit each, [32]; null: all
  std::int64_t rows = 0;                // left
  Vec scale = Isa::set1(0.0f);          // with log2(e)
  Vec most = Isa::set1(0.0f);           // largest sum of two weights so far, lane by lane

  std::int64_t left() const { return rows; }

  // The rows of one of the slots that lie before the next advance().
  template <int kSlot>
  [[gnu::always_inline]] void run() {
    constexpr int kRow = kSlot * kRowsASlot;
    static_assert(kRowsASlot == 2);
    if (seen) {
      one<true, kRow>();
      one<true, kRow + 1>();
    } else {
      one<false, kRow>();
      one<false, kRow + 1>();
    }
  }

  [[gnu::always_inline]] void advance(std::int64_t slots) {
    const std::int64_t count = slots * kRowsASlot;
    s += count * 64;
    p += count * 64;
    base += count;
    l_in += count * 64;
    l_out += count * 64;
    if (seen) seen += count;
    rows -= count;
  }

  template <bool kMasked, int kRow>
  [[gnu::always_inline]] void one() {
    constexpr std::int64_t kAt = kRow * 64;
    Vec x0 = Isa::fma(scale, Isa::load(s + kAt), Isa::set1(base[kRow]));
    Vec x1 = Isa::fma(scale, Isa::load(s + kCellBytes + kAt), Isa::set1(base[kRow]));
    if constexpr (kMasked) {
      x0 = Isa::select(seen[kRow] & 0xffff, x0, Isa::set1(-kInfinity));
      x1 = Isa::select(seen[kRow] >> 16, x1, Isa::set1(-kInfinity));
    }
    const Vec p0 = weight(x0);
    const Vec p1 = weight(x1);
    Isa::store_bf16(p + kAt, p0, p1);
    const Vec sum = Isa::add(p0, p1);
    Isa::store(l_out + kAt, Isa::add(sum, Isa::load(l_in + kAt)));
    most = Isa::max(sum, most);
  }

  [[gnu::always_inline]] static Vec weight(Vec x) {
    const Vec f = Isa::fraction(x);
    Vec y = Isa::add(f, Isa::set1(kExp2A));
    y = Isa::fma(y, f, Isa::set1(kExp2B));
    y = Isa::fma(y, f, Isa::set1(kWeightScale));
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
    run_softmax();
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
    start_softmax();
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

  void start_softmax() {
    softmax_.s = scratch_->s[span_ & 1];
    softmax_.p = scratch_->p[span_];
    softmax_.base = stats_->base;
    softmax_.l_in = reinterpret_cast<const std::byte*>(stats_->l[stats_->turn]);
    softmax_.l_out = reinterpret_cast<std::byte*>(stats_->l[stats_->turn ^ 1]);
    softmax_.rows = kGroupRows;
    softmax_.most = Isa::set1(0.0f);
  }

  void run_softmax() {
    for (; softmax_.left() > 0; softmax_.advance(1)) softmax_.template run<0>();
  }

  void end_span() {
    if (Isa::any_above(softmax_.most, kMostWeight)) redo_span();
    stats_->turn ^= 1;
  }

  // ---- Rare: a row has outgrown its base --------------------------------------------------------

  // Such rows get the true maximum so far, and what has been summed follows.
  void redo_span() {
    const std::uint32_t* seen = softmax_.seen ? scratch_->seen : nullptr;
    const std::byte* s = scratch_->s[span_ & 1];
    for (std::int64_t r = 0; r < kGroupRows; ++r) {
      const std::uint32_t bits = seen ? seen[r] : 0xffffffffu;
      const Vec never = Isa::set1(-kInfinity);
      const Vec s0 = Isa::mul(Isa::load(s + r * 64), softmax_.scale);
      const Vec s1 = Isa::mul(Isa::load(s + kCellBytes + r * 64), softmax_.scale);
      const float most =
          Isa::reduce_max(Isa::max(Isa::select(bits & 0xffff, s0, never),
                                   Isa::max(Isa::select(bits >> 16, s1, never), never)));
      const float before = -stats_->base[r];
      if (!(most > before + kRebaseGrowth)) continue;
      stats_->base[r] = -most;
      if (before != -kInfinity) rescale(r, ::exp2f(before - most));
    }
    start_softmax();
    softmax_.seen = seen;
    run_softmax();
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
