// Packed layouts and how rows get into them, generic over an Isa type (docs/adding-an-
// instruction-set.md lists what such a type has).
//
//   queries [block_q, dq]                       row-major
//   K       [block_k / kNr][dq / kPack][kNr][kPack]   groups of kNr keys, transposed
//   V       [dv / kNr][block_k / kPack][kNr][kPack]   groups of kNr columns
// dq is Dq rounded up to kPack, dv is Dv rounded up to kNr; what rounding adds is 0. kPack elements
// of the inner dimension lie together where an instruction multiplies pairs. Everything here is in
// an anonymous namespace: files compiled for different instruction sets must not share a copy.
#pragma once

#include <math.h>
#include <string.h>

#include <cstdint>

#include "attention/cpu/kernels.h"
#include "core/half.h"

namespace mla::attention::cpu {
namespace {

using Index = std::int64_t;

constexpr Index round_up(Index n, Index multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
constexpr Index smaller(Index a, Index b) { return a < b ? a : b; }
constexpr Index larger(Index a, Index b) { return a > b ? a : b; }

// C[rows, kNr] (+)= A[rows, steps kPack] B[steps, kNr, kPack].
template <class Element>
struct Product {
  const Element* a = nullptr;
  Index a_stride = 0;
  const Element* b = nullptr;
  Index steps = 0;
  float* c = nullptr;
  Index c_stride = 0;
};

// f(Rows<n>{}) with n = rows, or kMost where there are more.
template <int kCount>
struct Rows {
  static constexpr int kRows = kCount;
};
template <int kMost, class F>
inline void with_rows(Index rows, F f) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return with_rows<kMost - 1>(rows, f);
  }
  f(Rows<kMost>{});
}

// What all tables share: blocks that keep S, P and a panel in the first two caches of any of them.
struct Blocks {
  static constexpr Index kBlockQ = 96;
  static constexpr Index kStrip = 24;
  static constexpr Index kMaxBlockK = 256;
  static constexpr Index kPanelBytes = 384 * 1024;
};

template <DType D>
struct Type;
template <>
struct Type<DType::kFloat32> {
  using Value = float;
  static constexpr DType kDType = DType::kFloat32;
  static constexpr Index kSize = 4;
};
template <>
struct Type<DType::kFloat16> {
  using Value = Float16;
  static constexpr DType kDType = DType::kFloat16;
  static constexpr Index kSize = 2;
};
template <>
struct Type<DType::kBFloat16> {
  using Value = BFloat16;
  static constexpr DType kDType = DType::kBFloat16;
  static constexpr Index kSize = 2;
};

// f(Type<dtype>{})
template <class F>
auto for_dtype(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(Type<DType::kFloat32>{});
    case DType::kFloat16:
      return f(Type<DType::kFloat16>{});
    default:
      return f(Type<DType::kBFloat16>{});
  }
}

// The sizes of everything packed, and where in a panel things are.
template <class Isa>
struct Layout {
  using Element = typename Isa::Element;

  explicit Layout(const Shape& shape)
      : dq(round_up(shape.qk_head_dim, Isa::kPack)), dv(round_up(shape.v_head_dim, Isa::kNr)) {
    // A full panel at most kPanelBytes, so that it stays in the second cache beside S and O.
    const Index key_bytes = (dq + dv) * Index{sizeof(Element)};
    const Index keys = Isa::kPanelBytes / key_bytes / Isa::kNr * Isa::kNr;
    block_k = larger(Isa::kNr, smaller(keys, Isa::kMaxBlockK));
    exact_scores = shape.dtype == DType::kFloat32 && dq > 256;
  }
  Index s_stride() const { return block_k + 16; }  // rows not a multiple of 4 KiB apart
  const Element* keys(const void* panel) const { return static_cast<const Element*>(panel); }
  const Element* values(const void* panel) const { return keys(panel) + block_k * dq; }
  // Element d of key's v.
  const Element* value(const void* panel, Index key, Index d) const {
    const Index group = d / Isa::kNr * Isa::kNr * block_k;
    const Index step = key / Isa::kPack * Isa::kNr * Isa::kPack;
    return values(panel) + group + step + d % Isa::kNr * Isa::kPack + key % Isa::kPack;
  }
  Index query_bytes() const { return round_up(block_q * dq * Index{sizeof(Element)}, 64); }
  Index panel_bytes() const { return round_up(block_k * (dq + dv) * Index{sizeof(Element)}, 64); }

  static constexpr Index block_q = Isa::kBlockQ;
  Index block_k;
  Index dq;
  Index dv;
  // A sum of products of floats over so many dims errs by more than the contract allows where
  // scores are large: flash.h sums it in short pieces.
  bool exact_scores;
};

// Rows of the caller lie pages apart, where no hardware prefetcher follows: each loop over rows
// asks for the row kRowsAhead further on.
constexpr Index kRowsAhead = 6;
static inline void prefetch_row(const void* row, Index bytes) {
  for (Index at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(row) + at);
}

// The next kLanes elements as floats; where fewer bytes are left, zeros after them.
template <class Isa, DType D>
typename Isa::Vec load_some(const char* from, Index bytes) {
  constexpr Index kBytes = Isa::kLanes * Type<D>::kSize;
  if (bytes >= kBytes) return Isa::template load_as_float<D>(from);
  alignas(64) char buffer[kBytes] = {};
  if (bytes > 0) memcpy(buffer, from, static_cast<size_t>(bytes));
  return Isa::template load_as_float<D>(buffer);
}

// Rows transposed: to[group of kNr rows][word][kNr], where a word is an element made a float, or,
// with D = kFloat32 over rows of pairs, 32 bits of the row as they are. The row is as many words
// wide as begin in its bytes. Places of the last kLanes rows beyond count repeat the last row.
template <class Isa, DType D>
void pack_transposed(const void* const* rows, Index count, Index row_bytes, float* to,
                     Index group_stride) {
  constexpr Index kLanes = Isa::kLanes;
  constexpr Index kSize = Type<D>::kSize;
  const Index words = (row_bytes + kSize - 1) / kSize;
  for (Index first = 0; first < count; first += kLanes) {
    const char* from[kLanes];
    for (Index i = 0; i < kLanes; ++i) {
      from[i] = static_cast<const char*>(rows[smaller(first + i, count - 1)]);
    }
    float* const group = to + first / Isa::kNr * group_stride + first % Isa::kNr;
    const Index ahead = smaller(kLanes, count - first - kLanes);
    for (Index w = 0; w < words; w += kLanes) {
      if (w * kSize % 64 == 0) {
        for (Index i = 0; i < ahead; ++i) {
          __builtin_prefetch(static_cast<const char*>(rows[first + kLanes + i]) + w * kSize);
        }
      }
      typename Isa::Vec v[kLanes];
      for (Index i = 0; i < kLanes; ++i) {
        v[i] = load_some<Isa, D>(from[i] + w * kSize, row_bytes - w * kSize);
      }
      Isa::transpose(v);
      const Index live = smaller(kLanes, words - w);
      for (Index i = 0; i < live; ++i) Isa::store(group + (w + i) * Isa::kNr, v[i]);
    }
  }
}

// ---- kPack 1: panels of floats ------------------------------------------------------------------

// n elements as floats.
template <class Isa, DType D>
void convert_row(const void* from, Index n, float* to) {
  const char* const row = static_cast<const char*>(from);
  Index d = 0;
  for (; d + Isa::kLanes <= n; d += Isa::kLanes) {
    Isa::store(to + d, Isa::template load_as_float<D>(row + d * Type<D>::kSize));
  }
  if (d == n) return;
  alignas(64) float tail[Isa::kLanes];
  Isa::store(tail, load_some<Isa, D>(row + d * Type<D>::kSize, (n - d) * Type<D>::kSize));
  memcpy(to + d, tail, static_cast<size_t>(n - d) * sizeof(float));
}

// Rows as they are in groups of kNr columns: to[group of kNr columns][row][kNr], zeros from n on.
// True when all are finite.
template <class Isa, DType D>
bool pack_columns(const void* const* rows, Index count, Index n, float* to, Index group_stride) {
  using Vec = typename Isa::Vec;
  const Index bytes = n * Type<D>::kSize;
  Vec zero_or_nan = Isa::set(0);  // x * 0 is NaN for an x that is not finite
  for (Index r = 0; r < count; ++r) {
    const char* const row = static_cast<const char*>(rows[r]);
    if (r + kRowsAhead < count) prefetch_row(rows[r + kRowsAhead], bytes);
    for (Index d = 0; d < round_up(n, Isa::kNr); d += Isa::kLanes) {
      const Index at = d * Type<D>::kSize;
      const Vec v = load_some<Isa, D>(row + at, bytes - at);
      zero_or_nan = Isa::fma(v, Isa::set(0), zero_or_nan);
      Isa::store(to + d / Isa::kNr * group_stride + r * Isa::kNr + d % Isa::kNr, v);
    }
  }
  return Isa::sum(zero_or_nan) == 0;
}

// ---- kPack 2: panels of bf16 pairs --------------------------------------------------------------

// bf16 as they are, then zeros up to width.
static inline void copy_row(const void* from, Index n, Index width, BFloat16* to) {
  memcpy(to, from, static_cast<size_t>(n) * 2);
  for (Index d = n; d < width; ++d) to[d] = {};
}

// As above, of bf16 rows: to[group of kNr columns][pair of rows][kNr][2]. An odd last row is paired
// with zeros.
template <class Isa>
bool pack_column_pairs(const void* const* rows, Index count, Index n, BFloat16* to,
                       Index group_stride) {
  using Vec = typename Isa::Vec;
  Vec zero_or_nan = Isa::set(0);
  alignas(64) static constexpr std::uint16_t kZeros[Isa::kLanes] = {};
  for (Index r = 0; r < count; r += 2) {
    const char* const even = static_cast<const char*>(rows[r]);
    for (Index i = r + kRowsAhead; i < smaller(r + kRowsAhead + 2, count); ++i) {
      prefetch_row(rows[i], n * 2);
    }
    const char* const odd = r + 1 < count ? static_cast<const char*>(rows[r + 1]) : nullptr;
    for (Index d = 0; d < round_up(n, Isa::kNr); d += Isa::kLanes) {
      const Index bytes = (n - d) * 2;
      const Vec v0 = load_some<Isa, DType::kBFloat16>(even + d * 2, bytes);
      const Vec v1 =
          odd == nullptr
              ? Isa::template load_as_float<DType::kBFloat16>(reinterpret_cast<const char*>(kZeros))
              : load_some<Isa, DType::kBFloat16>(odd + d * 2, bytes);
      zero_or_nan = Isa::fma(v0, Isa::set(0), zero_or_nan);
      zero_or_nan = Isa::fma(v1, Isa::set(0), zero_or_nan);
      BFloat16* const at = to + d / Isa::kNr * group_stride + r * Isa::kNr + d % Isa::kNr * 2;
      Isa::store(reinterpret_cast<float*>(at), Isa::round_pair(v0, v1));
    }
  }
  return Isa::sum(zero_or_nan) == 0;
}

// o * factor as a row of dtype.
template <class Isa>
void store_row(const float* o, float factor, Index n, DType dtype, void* row) {
  for_dtype(dtype, [&](auto type) {
    constexpr DType D = decltype(type)::kDType;
    constexpr Index kSize = decltype(type)::kSize;
    char* const to = static_cast<char*>(row);
    Index d = 0;
    if constexpr (requires(typename Isa::Vec v) { Isa::template store_two_as<D>(to, v, v); }) {
      for (; d + 2 * Isa::kLanes <= n; d += 2 * Isa::kLanes) {
        Isa::template store_two_as<D>(to + d * kSize, Isa::mul(Isa::load(o + d), Isa::set(factor)),
                                      Isa::mul(Isa::load(o + d + Isa::kLanes), Isa::set(factor)));
      }
    }
    for (; d + Isa::kLanes <= n; d += Isa::kLanes) {
      Isa::template store_as<D>(to + d * kSize, Isa::mul(Isa::load(o + d), Isa::set(factor)));
    }
    if (d < n) {
      alignas(64) char tail[Isa::kLanes * kSize];
      Isa::template store_as<D>(tail, Isa::mul(Isa::load(o + d), Isa::set(factor)));
      memcpy(to + d * kSize, tail, static_cast<size_t>((n - d) * kSize));
    }
  });
}

}  // namespace
}  // namespace mla::attention::cpu
