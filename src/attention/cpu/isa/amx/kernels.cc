// Attention on Intel's matrix units: TDPBF16PS on eight tiles, AVX-512 around it. The algorithm is
// in flash_tiles.h; here are the instructions, the permission Linux wants asked for, and care for
// the tiles of whoever called us.
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attention/cpu/isa/amx/layout.h"
#include "attention/cpu/isa/amx/tile_kernels.h"
#include "attention/cpu/isa/isa.h"
#include "attention/cpu/probe.h"

namespace mla::attention::cpu {
namespace {

struct alignas(64) TileConfig {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

template <int kTile>
void load_tile(const void* from) {
  // The clobber keeps vector code between two tile instructions where it was written.
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(std::int64_t{64}), "i"(kTile)
               : "memory");
}
template <int kTile>
void store_tile(void* to) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(std::int64_t{64}), "i"(kTile)
               : "memory");
}

struct Amx {
  static constexpr const char* kName = "amx";
  using Vec = __m512;

  struct Tiles {
    template <int kTile>
    void zero() {
      asm volatile("tilezero %%tmm%c0" : : "i"(kTile) : "memory");
    }
    template <int kTile>
    void load(const std::byte* from) {
      load_tile<kTile>(from);
    }
    // Passing by: what is not needed again soon leaves the rest of L1 alone.
    template <int kTile>
    void load_once(const std::byte* from) {
      asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(std::int64_t{64}), "i"(kTile)
                   : "memory");
    }
    template <int kTile>
    void store(std::byte* to) {
      store_tile<kTile>(to);
    }
    template <int kC, int kA, int kB>
    void multiply() {
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                   :
                   : "i"(kC), "i"(kA), "i"(kB)
                   : "memory");
    }
  };

  static Vec set1(float x) { return _mm512_set1_ps(x); }
  static Vec load(const std::byte* from) { return _mm512_loadu_ps(from); }
  static void store(std::byte* to, Vec x) { _mm512_storeu_ps(to, x); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec select(std::uint32_t bits, Vec set, Vec clear) {
    return _mm512_mask_blend_ps(static_cast<__mmask16>(bits), clear, set);
  }
  static Vec fraction(Vec x) { return _mm512_reduce_ps(x, 1); }
  static Vec scale_by_exp2_floor(Vec a, Vec x) { return _mm512_scalef_ps(a, x); }
  static bool any_above(Vec x, float limit) {
    return _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_GT_OQ) != 0;
  }
  static float reduce_max(Vec x) { return _mm512_reduce_max_ps(x); }
  static float reduce_add(Vec x) { return _mm512_reduce_add_ps(x); }

  static float bf16_at(const std::byte* from, std::int64_t i) {
    const auto bits = static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(from)[i]);
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits << 16))));
  }
  static Vec load_bf16(const std::byte* from) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
  static void store_bf16(std::byte* to, Vec low, Vec high) {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  static void store_bf16_some(void* to, Vec low, Vec high, std::int64_t n) {
    _mm512_mask_storeu_epi16(to, lanes(n), (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  static void store_some(void* to, Vec x, std::int64_t n) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>(lanes(n)), x);
  }

  static bool pack_row(std::byte* to, const void* from, std::int64_t n) {
    const __m512i row = _mm512_maskz_loadu_epi16(lanes(n), from);
    _mm512_storeu_si512(to, row);
    return wild(row) == 0;
  }
  static void pack_columns(std::byte* tile, const void* const* rows, std::int64_t count,
                           std::int64_t dim, std::int64_t n) {
    __m512i r[16];
    const __mmask32 mask = lanes(n);
    for (int j = 0; j < 16; ++j) {
      r[j] = j < count
                 ? _mm512_maskz_loadu_epi16(mask, static_cast<const std::uint16_t*>(rows[j]) + dim)
                 : _mm512_setzero_si512();
    }
    transpose(r);
    for (int j = 0; j < 16; ++j) _mm512_storeu_si512(tile + j * 64, r[j]);
  }
  static bool pack_pairs(std::byte* cell, const void* const* rows, std::int64_t count,
                         std::int64_t dim, std::int64_t n) {
    const __mmask32 mask = lanes(n);
    __mmask32 any = 0;
    for (std::int64_t j = 0; j < 32; j += 2) {
      __m512i r[2];
      for (int i = 0; i < 2; ++i) {
        r[i] = j + i < count ? _mm512_maskz_loadu_epi16(
                                   mask, static_cast<const std::uint16_t*>(rows[j + i]) + dim)
                             : _mm512_setzero_si512();
        any |= wild(r[i]);
      }
      _mm512_storeu_si512(cell + j / 2 * 64, _mm512_permutex2var_epi16(r[0], zip(0), r[1]));
      _mm512_storeu_si512(cell + 1024 + j / 2 * 64, _mm512_permutex2var_epi16(r[0], zip(16), r[1]));
    }
    return any == 0;
  }
  static void store_pairs(std::byte* to, Vec a, Vec b) {
    const __m512i x = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, zip_halves(), x));
  }

  static void enter_thread(ThreadState* saved);
  static void leave_thread(const ThreadState* saved);

 private:
  static __mmask32 lanes(std::int64_t n) {
    return n >= 32 ? 0xffffffffu : (std::uint32_t{1} << n) - 1;
  }
  // Which elements are NaN or inf.
  static __mmask32 wild(__m512i x) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    return _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
  }
  // 2 i -> first + i of the first operand, 2 i + 1 -> the same of the second.
  static __m512i zip(int first) {
    alignas(64) std::int16_t index[32];
    for (int i = 0; i < 16; ++i) {
      index[2 * i] = static_cast<std::int16_t>(first + i);
      index[2 * i + 1] = static_cast<std::int16_t>(32 + first + i);
    }
    return _mm512_load_si512(index);
  }
  static __m512i zip_halves() {
    alignas(64) std::int16_t index[32];
    for (int i = 0; i < 16; ++i) {
      index[2 * i] = static_cast<std::int16_t>(i);
      index[2 * i + 1] = static_cast<std::int16_t>(16 + i);
    }
    return _mm512_load_si512(index);
  }
  // 16 x 16 elements of 32 bits.
  static void transpose(__m512i (&r)[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
      r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
      r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
      r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
      t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
      t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
      t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; ++i) {
      r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
      r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
  }
};

// Linux lets a process use tile data only after it has asked: ARCH_REQ_XCOMP_PERM, XTILEDATA.
// Asking twice is harmless, so that a flag serves where a guarded static would need the C++
// runtime.
void request_permission() {
  static int asked = 0;
  if (__atomic_load_n(&asked, __ATOMIC_RELAXED) != 0) return;
  ::syscall(SYS_arch_prctl, 0x1023, 18);
  __atomic_store_n(&asked, 1, __ATOMIC_RELAXED);
}

template <int kTile>
void save_tiles(const TileConfig& config, std::byte* to) {
  if (config.rows[kTile] != 0) store_tile<kTile>(to + kTile * kTileBytes);
  if constexpr (kTile > 0) save_tiles<kTile - 1>(config, to);
}

template <int kTile>
void restore_tiles(const TileConfig& config, const std::byte* from) {
  if (config.rows[kTile] != 0) load_tile<kTile>(from + kTile * kTileBytes);
  if constexpr (kTile > 0) restore_tiles<kTile - 1>(config, from);
}

void Amx::enter_thread(ThreadState* saved) {
  request_permission();
  auto& before = *reinterpret_cast<TileConfig*>(saved->bytes);
  asm volatile("sttilecfg %0" : "=m"(before));
  if (before.palette != 0) save_tiles<7>(before, saved->bytes + sizeof(TileConfig));
  TileConfig ours = {};
  ours.palette = 1;
  for (int i = 0; i < 8; ++i) {
    ours.row_bytes[i] = 64;
    ours.rows[i] = 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(ours));
}

void Amx::leave_thread(const ThreadState* saved) {
  const auto& before = *reinterpret_cast<const TileConfig*>(saved->bytes);
  if (before.palette == 0) {
    asm volatile("tilerelease");
    return;
  }
  asm volatile("ldtilecfg %0" : : "m"(before));
  restore_tiles<7>(before, saved->bytes + sizeof(TileConfig));
}

// Products on four independent sums: nothing but the unit itself is measured.
double probe_peak(DType, double milliseconds) {
  ThreadState saved;
  Amx::enter_thread(&saved);
  const double peak = probe_chains(
      [](long rounds) {
        Amx::Tiles tiles;
        for (long i = 0; i < rounds; ++i) {
          tiles.multiply<0, 4, 6>();
          tiles.multiply<1, 4, 7>();
          tiles.multiply<2, 5, 6>();
          tiles.multiply<3, 5, 7>();
        }
        return 0.0f;
      },
      4.0 * 2.0 * 16 * 16 * 32, milliseconds);
  Amx::leave_thread(&saved);
  return peak;
}

}  // namespace

extern const Kernels kAmxKernels = [] {
  Kernels table = TileKernels<Amx>::kernels();
  table.probe_peak = probe_peak;
  // Of an Emerald Rapids Xeon; those of few rows and products are in the table that has them.
  table.rates = {.attend = 0.0018,
                 .project = 0.0019,
                 .latent_key = 100,
                 .fold = 0.0024,
                 .fold_key = 250,
                 .row_granule = 16};
  return table;
}();

}  // namespace mla::attention::cpu
