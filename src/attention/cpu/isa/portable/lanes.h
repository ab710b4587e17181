// An Isa type in plain C++: arrays of N floats and loops over them. With few lanes it is the
// portable instruction set, with many and other tiles it stands in for wide ones in tests, bf16
// pairs included.
#pragma once

#include <type_traits>

#include "attention/cpu/exp2.h"
#include "attention/cpu/panels.h"
#include "attention/cpu/probe.h"

namespace mla::attention::cpu {
namespace {

template <int N>
struct LaneVec {
  float v[N];
};

// Rows is kMr, Columns kNr; Pairs: panels of bf16 pairs.
template <int N, int Rows, int Columns, bool Pairs>
struct Lanes {
  static constexpr Index kLanes = N;
  static constexpr Index kMr = Rows;
  static constexpr Index kNr = Columns;
  static constexpr Index kPack = Pairs ? 2 : 1;
  static constexpr Index kBlockQ = 96 / Rows * Rows;
  static constexpr Index kStrip = 24 / Rows * Rows;
  static constexpr Index kMaxBlockK = 256 / Columns * Columns;
  static constexpr Index kPanelBytes = 384 * 1024;
  using Element = std::conditional_t<Pairs, BFloat16, float>;
  using Vec = LaneVec<N>;

  template <class F>
  static Vec each(F f) {
    Vec to;
    for (int i = 0; i < N; ++i) to.v[i] = f(i);
    return to;
  }
  static Vec set(float x) {
    return each([&](int) { return x; });
  }
  static Vec load(const float* from) {
    return each([&](int i) { return from[i]; });
  }
  static void store(float* to, Vec a) {
    for (int i = 0; i < N; ++i) to[i] = a.v[i];
  }
  static void store(BFloat16* to, Vec a) {
    for (int i = 0; i < N; ++i) from_float(a.v[i], &to[i]);
  }
  static Vec add(Vec a, Vec b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  static Vec sub(Vec a, Vec b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  static Vec mul(Vec a, Vec b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  // b where either is NaN.
  static Vec max(Vec a, Vec b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Vec fma(Vec a, Vec b, Vec c) {
    return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  static float sum(Vec a) {
    float total = 0;
    for (int i = 0; i < N; ++i) total += a.v[i];
    return total;
  }
  static float maximum(Vec a) {
    float most = a.v[0];
    for (int i = 1; i < N; ++i) most = a.v[i] > most ? a.v[i] : most;
    return most;
  }
  static Vec exponent_from_low_bits(Vec a) {
    return each([&](int i) {
      return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, a.v[i]) << 23);
    });
  }
  static Vec exp2(Vec x) { return exp2_by_polynomial<Lanes>(x); }

  template <DType D>
  static Vec load_as_float(const char* from) {
    typename Type<D>::Value values[N];
    memcpy(values, from, sizeof(values));
    return each([&](int i) { return to_float(values[i]); });
  }
  template <DType D>
  static void store_as(char* to, Vec a) {
    typename Type<D>::Value values[N];
    for (int i = 0; i < N; ++i) from_float(a.v[i], &values[i]);
    memcpy(to, values, sizeof(values));
  }
  static void transpose(Vec (&rows)[N]) {
    for (int i = 0; i < N; ++i) {
      for (int j = 0; j < i; ++j) {
        const float x = rows[i].v[j];
        rows[i].v[j] = rows[j].v[i];
        rows[j].v[i] = x;
      }
    }
  }
  // Lane i holds the bf16 of even in its low and that of odd in its high half.
  static Vec round_pair(Vec even, Vec odd) {
    return each([&](int i) {
      BFloat16 low, high;
      from_float(even.v[i], &low);
      from_float(odd.v[i], &high);
      return __builtin_bit_cast(float, low.bits | static_cast<std::uint32_t>(high.bits) << 16);
    });
  }

  template <bool kAdd>
  static void multiply(Index rows, const Product<Element>& product) {
    if (rows == kMr) return multiply_rows<kAdd, kMr>(product);
    Product<Element> row = product;
    for (Index r = 0; r < rows; ++r) {
      multiply_rows<kAdd, 1>(row);
      row.a += product.a_stride;
      row.c += product.c_stride;
    }
  }

  template <bool kAdd, Index kRows>
  static void multiply_rows(const Product<Element>& product) {
    float c[kRows][kNr] = {};
    const Element* b = product.b;
    for (Index k = 0; k < product.steps; ++k, b += kNr * kPack) {
      for (Index r = 0; r < kRows; ++r) {
        const Element* const a = product.a + r * product.a_stride + k * kPack;
        for (Index j = 0; j < kNr; ++j) {
          for (Index i = 0; i < kPack; ++i) c[r][j] += to_float(a[i]) * to_float(b[j * kPack + i]);
        }
      }
    }
    for (Index r = 0; r < kRows; ++r) {
      float* const to = product.c + r * product.c_stride;
      for (Index j = 0; j < kNr; ++j) to[j] = kAdd ? to[j] + c[r][j] : c[r][j];
    }
  }

  // Eight vectors of chains, as the compiler makes them of this Isa's operations.
  static float chains(long rounds) {
    constexpr int kChains = 8;
    Vec c[kChains];
    for (int i = 0; i < kChains; ++i) c[i] = set(static_cast<float>(i));
    const Vec a = set(0.999f);
    for (long n = 0; n < rounds; ++n) {
      for (int i = 0; i < kChains; ++i) c[i] = fma(c[i], a, a);
    }
    float total = 0;
    for (int i = 0; i < kChains; ++i) total += sum(c[i]);
    return total;
  }
  static constexpr Rates kRates = kUnmeasuredRates;

  static double probe_peak(DType, double milliseconds) {
    return probe_chains(chains, 2.0 * 8 * N, milliseconds);
  }
};

}  // namespace
}  // namespace mla::attention::cpu
