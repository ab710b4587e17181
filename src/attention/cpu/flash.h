// FlashAttention-2 (arXiv:2307.08691) over packed panels, once for every instruction set with
// vector registers. One step adds a panel of keys to a block of query rows, a strip of rows at a
// time, so that S and P stay in the first caches:
//
//   S = Q K^T      one outer-product tile [kMr, kNr] after another, inner dimension Dq
//   P = 2^(c (S - m)), m the running maximum of S, c = scale log2(e); l += sum(P)
//   O += P V       the same tiles, inner dimension keys
//
// A key costs Dq + Dv multiply-adds a row and some ten vector operations in kLanes rows of P. O and
// l are rescaled only when c m grows by more than kLazy, so that P stays below 2^kLazy; the sum is
// exact all the same. S - m comes before c: no scale, however large, makes P of the maximum differ
// from 1. Keys a row does not see are never added: their P is 0 by selection.
#pragma once

#include "attention/cpu/panels.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct Flash {
  using Element = typename Isa::Element;
  using Vec = typename Isa::Vec;
  static constexpr Index kLanes = Isa::kLanes;
  static constexpr float kLazy = 8;
  static constexpr float kEmpty = -__builtin_inff();

  // What multiplies the scores, never negative: those of a negative scale change their sign.
  struct Scale {
    explicit Scale(float given)
        : sign(given < 0   ? -1
               : given > 0 ? 1
                           : 0),
          size(sign == 0 ? 0 : sign * given),
          c(sign == 0 ? 1 : smaller(size, kMost / kLog2E) * kLog2E) {}
    float sign;  // 0: all scores count as 0
    float size;  // |scale|
    float c;     // |scale| log2(e), finite

    static float smaller(float a, float b) { return a < b ? a : b; }
  };
  static constexpr float kLog2E = 1.44269504088896341f;
  static constexpr float kMost = __FLT_MAX__;

  // |scale|, then m and l [block_q], then o [block_q, dv].
  struct State {
    State(const Layout<Isa>& layout, void* memory)
        : scale(static_cast<float*>(memory)),
          m(scale + 16),
          l(m + layout.block_q),
          o(l + layout.block_q) {}
    float* scale;
    float* m;  // in units of s: the maximum, not raised where that is less than kLazy for P
    float* l;
    float* o;
  };

  static Index state_bytes(const Layout<Isa>& layout) {
    return round_up((16 + layout.block_q * (2 + layout.dv)) * Index{sizeof(float)}, 64);
  }
  // S, and where P has elements of its own, P.
  static Index scratch_bytes(const Layout<Isa>& layout) {
    const Index elements = Isa::kStrip * layout.s_stride();
    const Index s_bytes = round_up(elements * Index{sizeof(float)}, 64);
    return Isa::kPack == 1 ? s_bytes : s_bytes + round_up(elements * Index{sizeof(Element)}, 64);
  }

  static void begin(const Shape& shape, Index rows, void* memory) {
    const Layout<Isa> layout(shape);
    const State state(layout, memory);
    *state.scale = 0;
    for (Index r = 0; r < rows; ++r) {
      state.m[r] = kEmpty;
      state.l[r] = 0;
    }
    for (Index i = 0; i < rows * layout.dv; i += kLanes) Isa::store(state.o + i, Isa::set(0));
  }

  // A strip of rows at work.
  struct Strip {
    Index first = 0;  // row of the block
    Index rows = 0;
    float* s = nullptr;
    Element* p = nullptr;
  };

  static void step(const Shape& shape, float scale, const Step& step, void* memory, void* scratch) {
    const Layout<Isa> layout(shape);
    const State state(layout, memory);
    const Scale factors(scale);
    *state.scale = factors.size;
    Strip strip;
    strip.s = static_cast<float*>(scratch);
    if constexpr (Isa::kPack == 1) {
      strip.p = strip.s;
    } else {
      const Index s_floats = Isa::kStrip * layout.s_stride();
      strip.p = reinterpret_cast<Element*>(strip.s + round_up(s_floats, 16));
    }
    for (strip.first = 0; strip.first < step.rows; strip.first += Isa::kStrip) {
      strip.rows = smaller(Isa::kStrip, step.rows - strip.first);
      multiply_qk(layout, step, strip);
      softmax(layout, factors, step, strip, state);
      multiply_pv(layout, step, strip, state);
    }
  }

  // Keys that the last of the rows up to end sees: no row before it sees more.
  static Index keys_seen(const Step& step, Index end) {
    return step.visible != nullptr ? step.visible[end - 1] : step.keys;
  }

  static void multiply_qk(const Layout<Isa>& layout, const Step& step, const Strip& strip) {
    const Element* const q = static_cast<const Element*>(step.queries) + strip.first * layout.dq;
    const Element* const k = layout.keys(step.panel);
    Product<Element> product;
    product.a_stride = layout.dq;
    product.c_stride = layout.s_stride();
    product.steps = layout.dq / Isa::kPack;
    const Index seen = keys_seen(step, strip.first + strip.rows);
    for (Index key = 0; key < seen; key += Isa::kNr) {
      product.b = k + key * layout.dq;
      for (Index r = 0; r < strip.rows; r += Isa::kMr) {
        const Index rows = smaller(Isa::kMr, strip.rows - r);
        const Index columns = keys_seen(step, strip.first + r + rows) - key;
        if (columns <= 0) continue;
        product.a = q + r * layout.dq;
        product.c = strip.s + r * layout.s_stride() + key;
        if constexpr (Isa::kPack == 1) {
          if (layout.exact_scores) {
            multiply_in_pieces(rows, product);
            continue;
          }
        }
        if constexpr (requires { Isa::multiply_half(product); }) {
          if (columns <= Isa::kNr / 2 && rows == Isa::kMr) {
            Isa::multiply_half(product);
            continue;
          }
        }
        Isa::template multiply<false>(rows, product);
      }
    }
  }

  // A tile as the sum of products over kPiece dims, with what each addition loses added up aside
  // (Knuth's two-sum) and put back at the end. The error is that of a piece, not of the whole.
  static void multiply_in_pieces(Index rows, const Product<Element>& whole) {
    constexpr Index kPiece = 32;
    alignas(64) float tile[Isa::kMr * Isa::kNr];
    alignas(64) float lost[Isa::kMr * Isa::kNr];
    Product<Element> piece = whole;
    for (Index k = 0; k < whole.steps; k += kPiece) {
      piece.a = whole.a + k;
      piece.b = whole.b + k * Isa::kNr;
      piece.steps = smaller(kPiece, whole.steps - k);
      piece.c = tile;
      piece.c_stride = Isa::kNr;
      Isa::template multiply<false>(rows, piece);
      const bool first = k == 0, last = k + kPiece >= whole.steps;
      for (Index at = 0; at < rows * Isa::kNr; at += kLanes) {
        float* const to = whole.c + at / Isa::kNr * whole.c_stride + at % Isa::kNr;
        const Vec a = first ? Isa::set(0) : Isa::load(to);
        const Vec b = Isa::load(tile + at);
        const Vec sum = Isa::add(a, b);
        const Vec of_b = Isa::sub(sum, a);
        const Vec error = Isa::add(Isa::sub(a, Isa::sub(sum, of_b)), Isa::sub(b, of_b));
        const Vec errors = first ? error : Isa::add(Isa::load(lost + at), error);
        Isa::store(to, last ? Isa::add(sum, errors) : sum);
        Isa::store(lost + at, errors);
      }
    }
  }

  static void multiply_pv(const Layout<Isa>& layout, const Step& step, const Strip& strip,
                          const State& state) {
    // A masked key whose v is not finite cannot be multiplied by 0.
    const bool careful =
        !step.panel_finite && (step.visible != nullptr || step.keys % Isa::kPack != 0);
    if (careful) return multiply_pv_carefully(layout, step, strip, state);
    Product<Element> product;
    product.a_stride = layout.s_stride();
    product.c_stride = layout.dv;
    for (Index d = 0; d < layout.dv; d += Isa::kNr) {
      product.b = layout.values(step.panel) + d * layout.block_k;
      for (Index r = 0; r < strip.rows; r += Isa::kMr) {
        const Index rows = smaller(Isa::kMr, strip.rows - r);
        const Index seen = keys_seen(step, strip.first + r + rows);
        product.steps = (seen + Isa::kPack - 1) / Isa::kPack;
        product.a = strip.p + r * layout.s_stride();
        product.c = state.o + (strip.first + r) * layout.dv + d;
        Isa::template multiply<true>(rows, product);
      }
    }
  }

  // Row by row up to the last key the row sees.
  static void multiply_pv_carefully(const Layout<Isa>& layout, const Step& step, const Strip& strip,
                                    const State& state) {
    Product<Element> product;
    product.a_stride = layout.s_stride();
    product.c_stride = layout.dv;
    for (Index r = 0; r < strip.rows; ++r) {
      const Index seen = keys_seen(step, strip.first + r + 1);
      const Element* const p = strip.p + r * layout.s_stride();
      float* const o = state.o + (strip.first + r) * layout.dv;
      product.a = p;
      product.steps = seen / Isa::kPack;
      for (Index d = 0; d < layout.dv; d += Isa::kNr) {
        product.b = layout.values(step.panel) + d * layout.block_k;
        product.c = o + d;
        Isa::template multiply<true>(1, product);
      }
      for (Index key = product.steps * Isa::kPack; key < seen; ++key) {
        for (Index d = 0; d < layout.dv; ++d) {
          o[d] += to_float(p[key]) * to_float(*layout.value(step.panel, key, d));
        }
      }
    }
  }

  static void softmax(const Layout<Isa>& layout, const Scale& scale, const Step& step,
                      const Strip& strip, const State& state) {
    for (Index r = 0; r < strip.rows; ++r) {
      const Index tile_end = smaller(r / Isa::kMr * Isa::kMr + Isa::kMr, strip.rows);
      Row row;
      row.s = strip.s + r * layout.s_stride();
      row.p = strip.p + r * layout.s_stride();
      row.seen = keys_seen(step, strip.first + r + 1);
      row.end = keys_seen(step, strip.first + tile_end);
      softmax_row(layout, scale, row, state, strip.first + r);
    }
  }

  struct Row {
    float* s = nullptr;
    Element* p = nullptr;
    Index seen = 0;  // keys that the row sees
    Index end = 0;   // keys that its tile multiplies: P is 0 from seen on
  };

  static void softmax_row(const Layout<Isa>& layout, const Scale& scale, const Row& row,
                          const State& state, Index r) {
    if (scale.sign != 1) {
      for (Index j = 0; j < row.seen; ++j) row.s[j] *= scale.sign;
    }
    const Index vectors_end = round_up(row.seen, kLanes);
    for (Index j = row.seen; j < vectors_end; ++j) row.s[j] = kEmpty;

    Vec highest = Isa::set(kEmpty);
    for (Index j = 0; j < vectors_end; j += kLanes) {
      highest = Isa::max(highest, Isa::load(row.s + j));
    }
    raise(layout, scale, Isa::maximum(highest), state, r);

    // With every score at -inf there is no maximum to subtract, and P is 0.
    const Vec m = Isa::set(state.m[r] == kEmpty ? 0 : state.m[r]);
    const Vec c = Isa::set(scale.c);
    Vec sum = Isa::set(0);
    for (Index j = 0; j < vectors_end; j += kLanes) {
      const Vec p = Isa::exp2(Isa::mul(Isa::sub(Isa::load(row.s + j), m), c));
      sum = Isa::add(sum, p);
      Isa::store(row.p + j, p);
    }
    state.l[r] += Isa::sum(sum);
    const Index end = round_up(row.end, Isa::kPack);
    for (Index j = vectors_end; j < end; ++j) row.p[j] = Element{};
  }

  // Makes max the maximum of row r where it exceeds the one there is by enough to matter.
  static void raise(const Layout<Isa>& layout, const Scale& scale, float max, const State& state,
                    Index r) {
    if ((max - state.m[r]) * scale.c <= kLazy) return;
    if (state.m[r] != kEmpty) {
      const float factor = exp2f((state.m[r] - max) * scale.c);
      state.l[r] *= factor;
      float* const o = state.o + r * layout.dv;
      for (Index d = 0; d < layout.dv; d += kLanes) {
        Isa::store(o + d, Isa::mul(Isa::load(o + d), Isa::set(factor)));
      }
    }
    state.m[r] = max;
  }

  // scale m + ln(l). Beyond the range of float it is the nearest number: an infinite lse means a
  // row that sees nothing.
  static float lse(const State& state, Index r) {
    if (state.l[r] == 0) return kEmpty;
    const double exact =
        static_cast<double>(*state.scale) * static_cast<double>(state.m[r]) + logf(state.l[r]);
    const double most = static_cast<double>(kMost);
    return static_cast<float>(exact > most ? most : exact < -most ? -most : exact);
  }

  static void finish(const Shape& shape, Index rows, const void* memory, DType out_dtype,
                     void* const* out_rows, float* const* lse_rows) {
    const Layout<Isa> layout(shape);
    const State state(layout, const_cast<void*>(memory));
    const Index bytes = shape.v_head_dim * (out_dtype == DType::kFloat32 ? 4 : 2);
    for (Index r = 0; r < smaller(kRowsAhead, rows); ++r) prefetch_row(out_rows[r], bytes);
    for (Index r = 0; r < rows; ++r) {
      if (r + kRowsAhead < rows) prefetch_row(out_rows[r + kRowsAhead], bytes);
      const float l = state.l[r];
      const float inverse = l == 0 ? 0 : 1 / l;
      store_row<Isa>(state.o + r * layout.dv, inverse, shape.v_head_dim, out_dtype, out_rows[r]);
      if (lse_rows != nullptr) *lse_rows[r] = lse(state, r);
    }
  }
};

}  // namespace
}  // namespace mla::attention::cpu
