// The tile instructions and 16-lane vectors of amx.cc in plain C++, with the same meaning element
// by element: lets every tiling, edge and mask be tested on a machine without matrix units.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "attention/cpu/kernels.h"

namespace mla::attention::cpu {
namespace {

struct Emulated {
  static constexpr const char* kName = "amx_emulated";

  struct Vec {
    float lane[16];
  };

  static float widen(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  // Round to nearest even; a NaN stays one.
  static std::uint16_t narrow(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

  // Eight tiles of 16 rows of 64 bytes.
  class Tiles {
   public:
    template <int kTile>
    void zero() {
      std::memset(tile_[kTile], 0, sizeof tile_[kTile]);
    }
    template <int kTile>
    void load(const std::byte* from) {
      std::memcpy(tile_[kTile], from, sizeof tile_[kTile]);
    }
    template <int kTile>
    void load_once(const std::byte* from) {
      load<kTile>(from);
    }
    template <int kTile>
    void store(std::byte* to) const {
      std::memcpy(to, tile_[kTile], sizeof tile_[kTile]);
    }
    // TDPBF16PS: C[m][n] += A[m][2k] B[k][2n] + A[m][2k+1] B[k][2n+1]
    template <int kC, int kA, int kB>
    void multiply() {
      float c[16][16];
      std::uint16_t a[16][32], b[16][32];
      std::memcpy(c, tile_[kC], sizeof c);
      std::memcpy(a, tile_[kA], sizeof a);
      std::memcpy(b, tile_[kB], sizeof b);
      for (int m = 0; m < 16; ++m) {
        for (int k = 0; k < 16; ++k) {
          for (int n = 0; n < 16; ++n) {
            c[m][n] += widen(a[m][2 * k]) * widen(b[k][2 * n]);
            c[m][n] += widen(a[m][2 * k + 1]) * widen(b[k][2 * n + 1]);
          }
        }
      }
      std::memcpy(tile_[kC], c, sizeof c);
    }

   private:
    std::byte tile_[8][1024] = {};
  };

  static void enter_thread(ThreadState*) {}
  static void leave_thread(const ThreadState*) {}

  template <class F>
  static Vec each(F f) {
    Vec v;
    for (int i = 0; i < 16; ++i) v.lane[i] = f(i);
    return v;
  }
  static Vec set1(float x) {
    return each([&](int) { return x; });
  }
  static Vec load(const std::byte* from) {
    Vec v;
    std::memcpy(v.lane, from, sizeof v.lane);
    return v;
  }
  static void store(std::byte* to, const Vec& x) { std::memcpy(to, x.lane, sizeof x.lane); }
  static Vec add(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Vec mul(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Vec fma(const Vec& a, const Vec& b, const Vec& c) {
    return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  // b where either is NaN.
  static Vec max(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vec select(std::uint32_t bits, const Vec& set, const Vec& clear) {
    return each([&](int i) { return bits >> i & 1 ? set.lane[i] : clear.lane[i]; });
  }
  // x - floor(x), 0 for an infinite x.
  static Vec fraction(const Vec& x) {
    return each(
        [&](int i) { return std::isinf(x.lane[i]) ? 0.0f : x.lane[i] - std::floor(x.lane[i]); });
  }
  // a * 2^floor(x)
  static Vec scale_by_exp2_floor(const Vec& a, const Vec& x) {
    return each([&](int i) { return a.lane[i] * std::exp2(std::floor(x.lane[i])); });
  }
  static bool any_above(const Vec& x, float limit) {
    for (float lane : x.lane) {
      if (lane > limit) return true;
    }
    return false;
  }
  static float reduce_max(const Vec& x) {
    float most = x.lane[0];
    for (float lane : x.lane) most = lane > most ? lane : most;
    return most;
  }
  static float reduce_add(const Vec& x) {
    float sum = 0.0f;
    for (float lane : x.lane) sum += lane;
    return sum;
  }

  static float bf16_at(const std::byte* from, std::int64_t i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    return widen(bits);
  }
  static Vec load_bf16(const std::byte* from) {
    return each([&](int i) { return bf16_at(from, i); });
  }
  // 32 elements: low, then high.
  static void store_bf16(std::byte* to, const Vec& low, const Vec& high) {
    for (int i = 0; i < 32; ++i) put(to, i, narrow(i < 16 ? low.lane[i] : high.lane[i - 16]));
  }
  // The first n <= 32 elements of the same.
  static void store_bf16_some(void* to, const Vec& low, const Vec& high, std::int64_t n) {
    for (int i = 0; i < n; ++i) {
      put(static_cast<std::byte*>(to), i, narrow(i < 16 ? low.lane[i] : high.lane[i - 16]));
    }
  }
  // The first n <= 16 elements.
  static void store_some(void* to, const Vec& x, std::int64_t n) {
    std::memcpy(to, x.lane, static_cast<std::size_t>(n) * sizeof(float));
  }

  // A row of A: n <= 32 elements, then zeros. True when all are finite.
  static bool pack_row(std::byte* to, const void* from, std::int64_t n) {
    std::memset(to, 0, 64);
    if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * 2);
    bool finite = true;
    for (std::int64_t i = 0; i < n; ++i) finite &= std::isfinite(bf16_at(to, i));
    return finite;
  }
  // A tile of B from `count` <= 16 rows: its columns are the rows, its pairs are dims [dim, dim+n).
  static void pack_columns(std::byte* tile, const void* const* rows, std::int64_t count,
                           std::int64_t dim, std::int64_t n) {
    std::memset(tile, 0, 1024);
    for (std::int64_t j = 0; j < count; ++j) {
      const std::byte* from = static_cast<const std::byte*>(rows[j]) + 2 * dim;
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(tile + i / 2 * 64 + j * 4 + i % 2 * 2, from + 2 * i, 2);
      }
    }
  }
  // Two tiles of B from `count` <= 32 rows: their pairs are the rows, their columns are dims
  // [dim, dim+n), n <= 32. True when all are finite.
  static bool pack_pairs(std::byte* cell, const void* const* rows, std::int64_t count,
                         std::int64_t dim, std::int64_t n) {
    std::memset(cell, 0, 2048);
    bool finite = true;
    for (std::int64_t j = 0; j < count; ++j) {
      const std::byte* from = static_cast<const std::byte*>(rows[j]) + 2 * dim;
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(cell + i / 16 * 1024 + j / 2 * 64 + i % 16 * 4 + j % 2 * 2, from + 2 * i, 2);
        finite &= std::isfinite(bf16_at(from, i));
      }
    }
    return finite;
  }
  // Two rows of float32 to a row of B: element 2n from a, 2n+1 from b.
  static void store_pairs(std::byte* to, const Vec& a, const Vec& b) {
    for (int i = 0; i < 32; ++i) put(to, i, narrow(i % 2 ? b.lane[i / 2] : a.lane[i / 2]));
  }

 private:
  static void put(std::byte* to, std::int64_t i, std::uint16_t bits) {
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
};

}  // namespace
}  // namespace mla::attention::cpu
