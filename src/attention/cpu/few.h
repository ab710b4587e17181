// The absorbed form over few query rows: packing a panel for each key block would cost more than
// attending to it, so latent rows are only made floats, once for all query rows, and serve as K and
// as V. Of kKeys keys at a time:
//
//   C [keys, dq]        float rows, as they lie in the cache
//   S^T = C q'^T        tiles of kTileKeys keys by a group of kGroup query rows
//   P^T = 2^(c (S^T - m)) down the columns: m and l of a group are vectors
//   O += P C            tiles of kTileRows rows by two vectors of the first dv columns of C
//
// Queries are packed as [rows / kGroup][dq][kGroup]. The state is that of flash.h.
#pragma once

#include "attention/cpu/flash.h"

namespace mla::attention::cpu {
namespace {

template <class Isa>
struct Few {
  using Vec = typename Isa::Vec;
  using Scale = typename Flash<Isa>::Scale;
  static constexpr Index kLanes = Isa::kLanes;
  static constexpr Index kGroup = 16;
  static constexpr Index kVecs = kGroup / kLanes;
  static constexpr bool kWholeTiles = Isa::kPack == 1 && Isa::kNr == kGroup;
  static constexpr Index kTileKeys = kWholeTiles    ? Index{Isa::kMr}
                                     : kLanes == 16 ? 16
                                                    : larger(1, 8 / kVecs);
  static constexpr Index kTileRows = kLanes == 16 ? 8 : 6;
  static constexpr Index kKeys = 64;  // C of 576 columns is 144 KiB
  static constexpr Index kColumns =
      96;  // of C and q' at a time, so that q' stays in the first cache
  static constexpr Index kMaxRows = 64;
  static_assert(kGroup % kLanes == 0 && Isa::kNr % (2 * kLanes) == 0 &&
                (kWholeTiles || kKeys % kTileKeys == 0) && kMaxRows <= Isa::kBlockQ);

  struct Memory {
    Memory(const Layout<Isa>& layout, const Shape& shape, void* memory)
        : width(row_width(layout, shape)),
          queries(static_cast<float*>(memory)),
          keys(queries + kMaxRows * width),
          scores(keys + kKeys * width) {}
    Index width;
    float* queries;
    float* keys;    // [kKeys, width]
    float* scores;  // [kKeys, kGroup]
  };

  static Index row_width(const Layout<Isa>& layout, const Shape& shape) {
    return round_up(larger(shape.qk_head_dim, layout.dv), kGroup);
  }

  static Index bytes(const Shape& shape) {
    const Index width = row_width(Layout<Isa>(shape), shape);
    return (kMaxRows * width + kKeys * width + kKeys * kGroup) * Index{sizeof(float)};
  }

  static void pack(const Shape& shape, const void* const* rows, Index count, void* memory) {
    const Memory to(Layout<Isa>(shape), shape, memory);
    const Index dq = shape.qk_head_dim;
    for (Index first = 0; first < count; first += kGroup) {
      float* const group = to.queries + first * to.width;
      const Index live = smaller(kGroup, count - first);
      if (live < kGroup) memset(group, 0, static_cast<size_t>(dq * kGroup) * sizeof(float));
      if constexpr (kWholeTiles) {
        for_dtype(shape.dtype, [&](auto type) {
          pack_transposed<Isa, decltype(type)::kDType>(
              rows + first, live, dq * decltype(type)::kSize, group, dq * kGroup);
        });
        continue;
      }
      for (Index i = 0; i < live; ++i) {
        convert(shape.dtype, rows[first + i], dq, to.keys);
        for (Index d = 0; d < dq; ++d) group[d * kGroup + i] = to.keys[d];
      }
    }
  }

  static void convert(DType dtype, const void* from, Index n, float* to) {
    for_dtype(dtype, [&](auto type) { convert_row<Isa, decltype(type)::kDType>(from, n, to); });
  }

  // The rows of the next kKeys keys, fetched a few lines at a time while these are worked on: all
  // at once they would wait for each other. Into the second cache: the first is full of q' and C.
  struct Ahead {
    const void* const* rows = nullptr;
    Index count = 0;
    Index row_bytes = 0;
    Index pace = 0;  // lines a call
    Index row = 0;
    Index byte = 0;
    void fetch() {
      for (Index line = 0; line < pace && row < count; ++line) {
        __builtin_prefetch(static_cast<const char*>(rows[row]) + byte, 0, 2);
        byte += 64;
        if (byte >= row_bytes) {
          byte = 0;
          ++row;
        }
      }
    }
  };

  // Each tile of S and each piece of O fetches its share.
  static Ahead rows_after(const Shape& shape, const FewStep& step, Index next, Index keys) {
    Ahead ahead;
    ahead.rows = step.k_rows + next;
    ahead.count = smaller(kKeys, step.keys + step.ahead - next);
    ahead.row_bytes = shape.qk_head_dim * (shape.dtype == DType::kFloat32 ? 4 : 2);
    const Index pieces = (shape.qk_head_dim + kColumns - 1) / kColumns;
    const Index calls =
        pieces * ((keys + kTileKeys - 1) / kTileKeys) + Layout<Isa>(shape).dv / (2 * kLanes);
    const Index groups = (step.rows + kGroup - 1) / kGroup;
    ahead.pace = ahead.count * (ahead.row_bytes / 64 + 1) / (groups * calls) + 1;
    return ahead;
  }

  static void step(const Shape& shape, float scale, const FewStep& step, void* state,
                   void* memory) {
    const Layout<Isa> layout(shape);
    const Memory at(layout, shape, memory);
    const typename Flash<Isa>::State result(layout, state);
    const Scale factors(scale);
    *result.scale = factors.size;
    for (Index first = 0; first < step.keys; first += kKeys) {
      const Index keys = smaller(kKeys, step.keys - first);
      load_keys(shape, step, first, keys, at);
      Ahead ahead = rows_after(shape, step, first + keys, keys);
      for (Index row = 0; row < step.rows; row += kGroup) {
        const Index rows = smaller(kGroup, step.rows - row);
        multiply_qk(at, shape.qk_head_dim, row, keys, &ahead);
        softmax(layout, at, factors, {row, rows, keys}, result);
        multiply_pv(layout, at, {row, rows, keys}, result, &ahead);
      }
    }
  }

  // Of the rows after the last one, to the end of its tile, S is computed and not used.
  static void load_keys(const Shape& shape, const FewStep& step, Index first, Index keys,
                        const Memory& at) {
    for (Index j = 0; j < keys; ++j) {
      float* const row = at.keys + j * at.width;
      convert(shape.dtype, step.k_rows[first + j], shape.qk_head_dim, row);
      for (Index d = shape.qk_head_dim; d < at.width; ++d) row[d] = 0;
    }
    const Index end = kWholeTiles ? keys : round_up(keys, kTileKeys);
    for (Index j = keys; j < end; ++j) {
      memset(at.keys + j * at.width, 0, static_cast<size_t>(at.width) * sizeof(float));
    }
  }

  static void multiply_qk(const Memory& at, Index dq, Index row, Index keys, Ahead* ahead) {
    const float* const queries = at.queries + row * at.width;
    if constexpr (kWholeTiles) return multiply_qk_in_tiles(at, dq, queries, keys, ahead);
    for (Index d = 0; d < dq; d += kColumns) {
      const Index columns = smaller(kColumns, dq - d);
      for (Index key = 0; key < keys; key += kTileKeys) {
        qk_tile(at, queries + d * kGroup, {d, columns, key});
        ahead->fetch();
      }
    }
  }

  // By the tiles of the general path, whose 16 columns are a group of rows here.
  static void multiply_qk_in_tiles(const Memory& at, Index dq, const float* queries, Index keys,
                                   Ahead* ahead) {
    Product<float> product;
    product.a_stride = at.width;
    product.c_stride = kGroup;
    for (Index d = 0; d < dq; d += kColumns) {
      product.b = queries + d * kGroup;
      product.steps = smaller(kColumns, dq - d);
      for (Index key = 0; key < keys; key += Isa::kMr) {
        product.a = at.keys + key * at.width + d;
        product.c = at.scores + key * kGroup;
        const Index live = smaller(Isa::kMr, keys - key);
        if (d == 0) {
          Isa::template multiply<false>(live, product);
        } else {
          Isa::template multiply<true>(live, product);
        }
        ahead->fetch();
      }
    }
  }

  struct Piece {
    Index d = 0;
    Index columns = 0;
    Index key = 0;
  };

  static void qk_tile(const Memory& at, const float* q, const Piece& piece) {
    const float* const k = at.keys + piece.key * at.width + piece.d;
    float* const to = at.scores + piece.key * kGroup;
    Vec s[kTileKeys][kVecs];
    for (int j = 0; j < kTileKeys; ++j) {
      for (int v = 0; v < kVecs; ++v) {
        s[j][v] = piece.d == 0 ? Isa::set(0) : Isa::load(to + j * kGroup + v * kLanes);
      }
    }
    for (Index d = 0; d < piece.columns; ++d, q += kGroup) {
      Vec x[kVecs];
      for (int v = 0; v < kVecs; ++v) x[v] = Isa::load(q + v * kLanes);
      for (int j = 0; j < kTileKeys; ++j) {
        const Vec y = Isa::set(k[j * at.width + d]);
        for (int v = 0; v < kVecs; ++v) s[j][v] = Isa::fma(x[v], y, s[j][v]);
      }
    }
    for (int j = 0; j < kTileKeys; ++j) {
      for (int v = 0; v < kVecs; ++v) Isa::store(to + j * kGroup + v * kLanes, s[j][v]);
    }
  }

  struct Group {
    Index row = 0;  // of the query block
    Index rows = 0;
    Index keys = 0;
  };

  static void softmax(const Layout<Isa>& layout, const Memory& at, const Scale& scale,
                      const Group& group, const typename Flash<Isa>::State& state) {
    if (scale.sign != 1) {
      for (Index i = 0; i < group.keys * kGroup; ++i) at.scores[i] *= scale.sign;
    }
    for (int v = 0; v < kVecs; ++v) {
      float* const s = at.scores + v * kLanes;
      Vec highest = Isa::set(Flash<Isa>::kEmpty);
      for (Index j = 0; j < group.keys; ++j) {
        highest = Isa::max(highest, Isa::load(s + j * kGroup));
      }
      alignas(64) float most[kLanes] = {};
      Isa::store(most, highest);
      for (Index i = 0; i < kLanes; ++i) {
        const Index r = group.row + v * kLanes + i;
        const bool live = v * kLanes + i < group.rows;
        if (live) Flash<Isa>::raise(layout, scale, most[i], state, r);
        most[i] = live && state.m[r] != Flash<Isa>::kEmpty ? state.m[r] : 0;
      }
      const Vec c = Isa::set(scale.c);
      const Vec m = Isa::load(most);
      Vec sum = Isa::set(0);
      for (Index j = 0; j < group.keys; ++j) {
        const Vec p = Isa::exp2(Isa::mul(Isa::sub(Isa::load(s + j * kGroup), m), c));
        sum = Isa::add(sum, p);
        Isa::store(s + j * kGroup, p);
      }
      alignas(64) float sums[kLanes];
      Isa::store(sums, sum);
      for (Index i = 0; i < kLanes && v * kLanes + i < group.rows; ++i) {
        state.l[group.row + v * kLanes + i] += sums[i];
      }
    }
  }

  static void multiply_pv(const Layout<Isa>& layout, const Memory& at, const Group& group,
                          const typename Flash<Isa>::State& state, Ahead* ahead) {
    for (Index d = 0; d < layout.dv; d += 2 * kLanes) {
      ahead->fetch();
      Index r = 0;
      for (; r + kTileRows <= group.rows; r += kTileRows) {
        pv_tile<kTileRows>(layout, at, group, r, d, state.o);
      }
      if (r < group.rows) {
        with_rows<kTileRows>(group.rows - r,
                             [&](auto n) { pv_tile<n.kRows>(layout, at, group, r, d, state.o); });
      }
    }
  }

  template <int kRows>
  static void pv_tile(const Layout<Isa>& layout, const Memory& at, const Group& group, Index r,
                      Index d, float* o) {
    const float* p = at.scores + r;
    const float* v = at.keys + d;
    float* const to = o + (group.row + r) * layout.dv + d;
    Vec sum[kRows][2];
    for (int i = 0; i < kRows; ++i) {
      sum[i][0] = Isa::load(to + i * layout.dv);
      sum[i][1] = Isa::load(to + i * layout.dv + kLanes);
    }
    for (Index j = 0; j < group.keys; ++j, p += kGroup, v += at.width) {
      __builtin_prefetch(v + 2 * kLanes);  // for the next columns
      const Vec v0 = Isa::load(v);
      const Vec v1 = Isa::load(v + kLanes);
      for (int i = 0; i < kRows; ++i) {
        const Vec x = Isa::set(p[i]);
        sum[i][0] = Isa::fma(x, v0, sum[i][0]);
        sum[i][1] = Isa::fma(x, v1, sum[i][1]);
      }
    }
    for (int i = 0; i < kRows; ++i) {
      Isa::store(to + i * layout.dv, sum[i][0]);
      Isa::store(to + i * layout.dv + kLanes, sum[i][1]);
    }
  }
};

}  // namespace
}  // namespace mla::attention::cpu
