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
//
// c S + b is one instruction, and errs by a rounding of c S: fine for the scales of models. From
// |scale| = kLargeScale on, where that error would grow without a bound, it is c (S + b) instead.
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
inline constexpr float kLargeScale = 1.0f;

// The factors of a span's scores: x = outer (inner s + base).
struct Factors {
  explicit Factors(float scale) {
    const float size = scale < 0 ? -scale : scale;
    large = size > kLargeScale;
    if (!large) {
      inner = scale * kLog2E;
    } else {
      inner = scale < 0 ? -1.0f : 1.0f;
      outer = (size < __FLT_MAX__ / kLog2E ? size : __FLT_MAX__ / kLog2E) * kLog2E;
    }
  }
  bool large = false;
  float inner = 0.0f;
  float outer = 1.0f;  // 1 but for large scales
};

// The rows of one span's softmax, done a few at a time. What limits a step is the number of
// instructions beside its multiplies: the rows are unrolled, and no operand is overwritten that is
// needed again. 32 rows are spread over the 5 steps of Dq = 192 that can have some: a multiply
// hides one row and a half, not two.
template <class Isa>
struct SpanSoftmax {
  using Vec = typename Isa::Vec;
  static constexpr std::int64_t kRowsAStep = 6;
  // The first row of each slot.
  static constexpr int kSlots[5] = {0, 2, 3, 5, kRowsAStep};

  // Of the next row.
  const std::byte* s = nullptr;         // two tiles of each of two columns of 16 keys
  std::byte* p = nullptr;               // two tiles
  const float* base = nullptr;          // [32]
  const std::byte* l_in = nullptr;      // [32][16]
  std::byte* l_out = nullptr;           // [32][16]
  const std::uint32_t* seen = nullptr;  // which keys row r sees, a bit each, [32]; null: all
  std::int64_t rows = 0;                // left
  bool large = false;                   // scale: then seen is not null
  Vec inner = Isa::set1(0.0f);          // of Factors
  Vec outer = Isa::set1(1.0f);
  Vec most = Isa::set1(0.0f);  // largest sum of two weights so far, lane by lane

  bool fills_step() const { return rows >= kRowsAStep; }

  template <int kSlot>
  [[gnu::always_inline]] void run() {
    constexpr int kRow = kSlots[kSlot];
    static_assert(kSlots[kSlot + 1] - kRow <= 2);
    if (seen) {
      one<true, kRow>();
      if constexpr (kSlots[kSlot + 1] - kRow == 2) one<true, kRow + 1>();
    } else {
      one<false, kRow>();
      if constexpr (kSlots[kSlot + 1] - kRow == 2) one<false, kRow + 1>();
    }
  }

  [[gnu::always_inline]] void advance_step() { advance(kRowsAStep); }

  [[gnu::always_inline]] void finish() {
    for (; rows > 0; advance(1)) {
      if (seen) {
        one<true, 0>();
      } else {
        one<false, 0>();
      }
    }
  }

  [[gnu::always_inline]] void advance(std::int64_t count) {
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
    Vec x0 = Isa::fma(inner, Isa::load(s + kAt), Isa::set1(base[kRow]));
    Vec x1 = Isa::fma(inner, Isa::load(s + kCellBytes + kAt), Isa::set1(base[kRow]));
    if constexpr (kMasked) {
      if (large) {
        x0 = Isa::mul(x0, outer);
        x1 = Isa::mul(x1, outer);
      }
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
      : geometry_(geometry),
        scratch_(static_cast<Scratch*>(scratch)),
        product_(scratch_->spill),
        factors_(scale) {}

  // A group's rows against all keys of a panel; `visible` as in Step, or null.
  void run(const std::byte* queries, const Step& step, const std::int32_t* visible,
           std::int64_t rows, std::byte* state) {
    visible_ = visible;
    rows_ = rows;
    o_ = state;
    stats_ = reinterpret_cast<GroupStats*>(state + geometry_.group_o_bytes());
    stats_->log2 = factors_.outer;
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
  // P of a stripe. The softmax of a span begins when the first step of the next one has stored its
  // scores and ends in the first step of the one after that.
  void weigh(const std::byte* queries, const std::byte* keys, std::int64_t key,
             std::int64_t count) {
    key_ = key;
    count_ = count;
    const std::int64_t spans = (count + kSpan - 1) / kSpan;
    SpanSoftmax<Isa> softmax;
    for (std::int64_t j = 0; j < spans; ++j) {
      softmax = product_.template multiply<false>(
          queries, keys, geometry_.qk_cells,
          scratch_->s[j & 1], [&]() __attribute__((always_inline)) {
            if (j > 1) end_span(j - 2, softmax);
            return j > 0 ? begin_span(j - 1) : SpanSoftmax<Isa>();
          });
      keys += geometry_.qk_cells * kCellBytes;
    }
    product_.flush();
    if (spans > 1) end_span(spans - 2, softmax);
    end_span(spans - 1, begin_span(spans - 1));
  }

  void add_values(const std::byte* values, std::int64_t spans) {
    for (std::int64_t d = 0; d < geometry_.v_cells; ++d) {
      product_.template multiply<true>(scratch_->p[0], values, spans, o_ + d * 2 * kCellBytes);
      values += geometry_.panel_spans * kCellBytes;
    }
  }

  [[gnu::always_inline]] SpanSoftmax<Isa> begin_span(std::int64_t span) {
    const std::int64_t first_key = key_ + span * kSpan;
    const std::int64_t keys_left = count_ - span * kSpan;
    const bool all =
        !factors_.large && keys_left >= kSpan && (!visible_ || visible_[0] >= first_key + kSpan);
    if (!all) mark_seen(first_key, keys_left < kSpan ? keys_left : kSpan);
    return softmax_of(span, all ? nullptr : scratch_->seen);
  }

  void mark_seen(std::int64_t first_key, std::int64_t keys) {
    for (std::int64_t r = 0; r < kGroupRows; ++r) {
      std::int64_t n = keys;
      if (visible_) {
        n = visible_[r < rows_ ? r : rows_ - 1] - first_key;
        n = n < 0 ? 0 : n > keys ? keys : n;
      }
      scratch_->seen[r] = n >= 32 ? 0xffffffffu : (std::uint32_t{1} << n) - 1;
    }
  }

  [[gnu::always_inline]] SpanSoftmax<Isa> softmax_of(std::int64_t span, const std::uint32_t* seen) {
    SpanSoftmax<Isa> softmax;
    softmax.s = scratch_->s[span & 1];
    softmax.p = scratch_->p[span];
    softmax.base = stats_->base;
    softmax.l_in = reinterpret_cast<const std::byte*>(stats_->l[stats_->turn]);
    softmax.l_out = reinterpret_cast<std::byte*>(stats_->l[stats_->turn ^ 1]);
    softmax.seen = seen;
    softmax.rows = kGroupRows;
    softmax.large = factors_.large;
    softmax.inner = Isa::set1(factors_.inner);
    softmax.outer = Isa::set1(factors_.outer);
    return softmax;
  }

  [[gnu::always_inline]] void end_span(std::int64_t span, SpanSoftmax<Isa> softmax) {
    softmax.finish();
    if (Isa::any_above(softmax.most, kMostWeight)) redo_span(span, softmax.seen != nullptr);
    stats_->turn ^= 1;
  }

  // ---- Rare: a row has outgrown its base --------------------------------------------------------

  // Such rows get the true maximum so far, and what has been summed follows.
  [[gnu::noinline]] void redo_span(std::int64_t span, bool masked) {
    const std::uint32_t* seen = masked ? scratch_->seen : nullptr;
    const std::byte* s = scratch_->s[span & 1];
    for (std::int64_t r = 0; r < kGroupRows; ++r) {
      const std::uint32_t bits = seen ? seen[r] : 0xffffffffu;
      const Vec never = Isa::set1(-kInfinity);
      const Vec inner = Isa::set1(factors_.inner);
      const Vec s0 = Isa::mul(Isa::load(s + r * 64), inner);
      const Vec s1 = Isa::mul(Isa::load(s + kCellBytes + r * 64), inner);
      const float most =
          Isa::reduce_max(Isa::max(Isa::select(bits & 0xffff, s0, never),
                                   Isa::max(Isa::select(bits >> 16, s1, never), never)));
      const float before = -stats_->base[r];
      const float growth = (most - before) * factors_.outer;
      if (!(growth > kRebaseGrowth)) continue;
      stats_->base[r] = -most;
      if (before != -kNothing) rescale(span, r, ::exp2f(-growth));
    }
    softmax_of(span, seen).finish();
  }

  void rescale(std::int64_t span, std::int64_t r, float factor) {
    const Vec w = Isa::set1(factor);
    const auto scale = [w](std::byte* x) { Isa::store(x, Isa::mul(Isa::load(x), w)); };
    scale(reinterpret_cast<std::byte*>(stats_->l[stats_->turn][r]));
    for (std::int64_t j = 0; j < span; ++j) {
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
  const Factors factors_;
  // the group at hand
  const std::int32_t* visible_ = nullptr;
  std::int64_t rows_ = 0;
  std::byte* o_ = nullptr;
  GroupStats* stats_ = nullptr;
  // the stripe
  std::int64_t key_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace
}  // namespace mla::attention::cpu
