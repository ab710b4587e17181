// The tile kernels: with emulated tiles on any machine, with the real ones where the CPU has them,
// and both against each other. The checks every table passes are in kernels_test.cc.
#include "attention/cpu/isa/amx/emulated.h"
#include "attention/cpu/isa/amx/tile_kernels.h"
#include "attention/cpu/kernels_check.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mla::attention::cpu {
namespace {

constexpr Kernels kEmulatedAmx = TileKernels<Emulated>::kernels();

const Kernels* real_table() { return runs_here("amx") ? find_kernels("amx") : nullptr; }

std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> found = {&kEmulatedAmx};
  if (real_table() != nullptr) found.push_back(real_table());
  return found;
}

KernelCase bf16_case(std::int64_t dq, std::int64_t dv, std::int64_t rows, std::int64_t keys) {
  KernelCase c;
  c.dtype = DType::kBFloat16;
  c.qk_head_dim = dq;
  c.v_head_dim = dv;
  c.rows = rows;
  c.keys = keys;
  c.scale = 1 / std::sqrt(static_cast<float>(dq));
  return c;
}

TEST(AmxTest, EdgesOfTilesSpansStripesAndGroups) {
  for (const Kernels* table : tables()) {
    for (std::int64_t rows : {1, 15, 16, 17, 31, 32, 33, 70}) {
      for (std::int64_t keys : {1, 31, 32, 33, 255, 256, 257, 520}) {
        KernelCase c = bf16_case(40, 24, rows, keys);
        for (bool causal : {false, true}) {
          c.causal = causal;
          check_attention(*table, c, true);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(AmxTest, AnyHeadDims) {
  for (const Kernels* table : tables()) {
    for (std::int64_t dq : {1, 31, 32, 33, 64, 192}) {
      for (std::int64_t dv : {1, 16, 31, 32, 33, 128}) {
        KernelCase c = bf16_case(dq, dv, 37, 70);
        c.causal = true;
        check_attention(*table, c, true);
        if (HasFatalFailure()) return;
      }
    }
    check_attention(*table, bf16_case(1024, 1024, 33, 40), true);
    check_attention(*table, bf16_case(576, 512, 33, 300), true);
  }
}

TEST(AmxTest, ProjectsAnyDimsAndDtypes) {
  const ProjectionCase cases[] = {{DType::kBFloat16, 128, 64, 128, 512, 70},
                                  {DType::kBFloat16, 40, 24, 24, 48, 33},
                                  {DType::kBFloat16, 33, 1, 17, 31, 64},
                                  {DType::kBFloat16, 64, 0, 32, 32, 1}};
  for (const Kernels* table : tables()) {
    for (const ProjectionCase& c : cases) {
      check_projection(*table, c, true);
      if (HasFatalFailure()) return;
    }
  }
}

// Runs a block over all its keys; q, k, v as they are given.
std::vector<float> attend(const Kernels& table, const Shape& shape, float scale,
                          const ElementMatrix& q, const ElementMatrix& k, const ElementMatrix& v,
                          ElementMatrix& out) {
  BlockRun run(table, shape, scale, q);
  const std::vector<std::int64_t> seen(static_cast<std::size_t>(q.rows()), k.rows());
  for (std::int64_t first = 0; first < k.rows(); first += run.block_k()) {
    const std::int64_t count = std::min(run.block_k(), k.rows() - first);
    const bool finite =
        table.pack_panel(shape, k.row_pointers(first), v.row_pointers(first), count, run.panel());
    run.add(first, count, finite, seen);
  }
  std::vector<float> lse(static_cast<std::size_t>(q.rows()));
  run.finish(out, lse);
  return lse;
}

// Scores that keep growing make every span outgrow its maximum; falling ones none but the first.
TEST(AmxTest, MaximaThatGrowWithTheKeys) {
  constexpr std::int64_t kRows = 70, kKeys = 600, kDq = 24, kDv = 40;
  const Shape shape = {DType::kBFloat16, kDq, kDv};
  for (const Kernels* table : tables()) {
    for (float slope : {0.02f, -0.02f, 0.3f, 16.0f}) {
      SCOPED_TRACE(std::string(table->name) + ", slope " + std::to_string(slope));
      std::mt19937_64 random(7);
      ElementMatrix q(DType::kBFloat16, kRows, kDq), k(DType::kBFloat16, kKeys, kDq),
          v(DType::kBFloat16, kKeys, kDv), out(DType::kFloat32, kRows, kDv);
      for (ElementMatrix* m : {&q, &k, &v}) m->fill(random);
      for (std::int64_t r = 0; r < kRows; ++r) q.set(r, 0, static_cast<float>(r % 3));
      for (std::int64_t j = 0; j < kKeys; ++j) k.set(j, 0, slope * static_cast<float>(j));
      const std::vector<float> lse = attend(*table, shape, 0.5f, q, k, v, out);
      const std::vector<std::int64_t> seen(kRows, kKeys);
      expect_attended(attend_in_double(q, k, v, shape, 0.5, seen), out, lse, shape,
                      tolerance_of(true));
      if (HasFatalFailure()) return;
    }
  }
}

// Whole numbers, so that every score is exact: what is left of a row is its highest keys' mean.
TEST(AmxTest, HugeScales) {
  constexpr std::int64_t kRows = 37, kKeys = 300, kDq = 24, kDv = 16;
  const Shape shape = {DType::kBFloat16, kDq, kDv};
  std::mt19937_64 random(9);
  ElementMatrix q(DType::kBFloat16, kRows, kDq), k(DType::kBFloat16, kKeys, kDq),
      v(DType::kBFloat16, kKeys, kDv), out(DType::kFloat32, kRows, kDv);
  v.fill(random);
  const auto whole = [&] { return static_cast<float>(static_cast<int>(random() % 9) - 4); };
  for (std::int64_t d = 0; d < kDq; ++d) {
    for (std::int64_t r = 0; r < kRows; ++r) q.set(r, d, whole());
    for (std::int64_t j = 0; j < kKeys; ++j) k.set(j, d, whole());
  }
  const std::vector<std::int64_t> seen(kRows, kKeys);
  for (const Kernels* table : tables()) {
    for (float scale : {1.5f, 1e8f, -1e8f, 1e30f, -1e30f, 1e35f}) {
      SCOPED_TRACE(std::string(table->name) + ", scale " + std::to_string(scale));
      const std::vector<float> lse = attend(*table, shape, scale, q, k, v, out);
      expect_attended(attend_in_double(q, k, v, shape, scale, seen), out, lse, shape,
                      tolerance_of(true));
      if (HasFatalFailure()) return;
    }
    for (const float beyond : attend(*table, shape, 3e38f, q, k, v, out)) {
      EXPECT_TRUE(std::isfinite(beyond));
    }
  }
}

TEST(AmxTest, ScoresOfMinusInfinityWeighNothing) {
  constexpr std::int64_t kRows = 33, kKeys = 100, kDq = 8, kDv = 16;
  const Shape shape = {DType::kBFloat16, kDq, kDv};
  std::mt19937_64 random(10);
  ElementMatrix q(DType::kBFloat16, kRows, kDq), k(DType::kBFloat16, kKeys, kDq),
      v(DType::kBFloat16, kKeys, kDv), out(DType::kFloat32, kRows, kDv);
  for (ElementMatrix* m : {&q, &k, &v}) m->fill(random);
  for (std::int64_t r = 0; r < kRows; ++r) q.set(r, 0, 1.0f);
  for (std::int64_t j = 0; j < 70; ++j) k.set(j, 0, -INFINITY);
  const std::vector<std::int64_t> seen(kRows, kKeys);
  for (const Kernels* table : tables()) {
    for (float scale : {0.4f, 8.0f}) {
      const std::vector<float> lse = attend(*table, shape, scale, q, k, v, out);
      expect_attended(attend_in_double(q, k, v, shape, scale, seen), out, lse, shape,
                      tolerance_of(true));
      if (HasFatalFailure()) return;
    }
  }
}

// A NaN in a row of q, and a NaN key, stay where they belong; an infinite score does not hang.
TEST(AmxTest, NanStaysInItsRow) {
  constexpr std::int64_t kRows = 40, kKeys = 300, kDq = 24, kDv = 16;
  const Shape shape = {DType::kBFloat16, kDq, kDv};
  for (const Kernels* table : tables()) {
    std::mt19937_64 random(9);
    ElementMatrix q(DType::kBFloat16, kRows, kDq), k(DType::kBFloat16, kKeys, kDq),
        v(DType::kBFloat16, kKeys, kDv), clean(DType::kFloat32, kRows, kDv),
        out(DType::kFloat32, kRows, kDv);
    for (ElementMatrix* m : {&q, &k, &v}) m->fill(random);
    attend(*table, shape, 0.2f, q, k, v, clean);
    q.set(5, 3, NAN);
    q.set(33, 3, INFINITY);
    attend(*table, shape, 0.2f, q, k, v, out);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t d = 0; d < kDv; ++d) {
        if (r == 5 || r == 33) {
          ASSERT_TRUE(std::isnan(out.get(r, d))) << r;
        } else {
          ASSERT_EQ(out.get(r, d), clean.get(r, d)) << r;
        }
      }
    }
  }
}

TEST(AmxTest, EmulatedTilesGiveTheAnswersOfRealOnes) {
  if (real_table() == nullptr) GTEST_SKIP() << "this CPU has no AMX tiles";
  constexpr std::int64_t kRows = 75, kKeys = 700, kDq = 192, kDv = 128;
  const Shape shape = {DType::kBFloat16, kDq, kDv};
  std::mt19937_64 random(11);
  ElementMatrix q(DType::kBFloat16, kRows, kDq), k(DType::kBFloat16, kKeys, kDq),
      v(DType::kBFloat16, kKeys, kDv), real(DType::kFloat32, kRows, kDv),
      emulated(DType::kFloat32, kRows, kDv);
  for (ElementMatrix* m : {&q, &k, &v}) m->fill(random);
  const auto lse = attend(*real_table(), shape, 0.07f, q, k, v, real);
  const auto emulated_lse = attend(kEmulatedAmx, shape, 0.07f, q, k, v, emulated);
  for (std::int64_t r = 0; r < kRows; ++r) {
    EXPECT_NEAR(lse[static_cast<std::size_t>(r)], emulated_lse[static_cast<std::size_t>(r)], 1e-5);
    // The sums differ in order, and a P may round the other way.
    for (std::int64_t d = 0; d < kDv; ++d) ASSERT_NEAR(real.get(r, d), emulated.get(r, d), 2e-4);
  }
}

TEST(AmxTest, ProbeLeavesNoTilesBehind) {
  if (real_table() == nullptr) GTEST_SKIP() << "this CPU has no AMX tiles";
  ThreadState first, second;
  real_table()->enter_thread(&first);
  real_table()->leave_thread(&first);
  EXPECT_GT(real_table()->probe_peak(DType::kBFloat16, 2), 1.0);
  real_table()->enter_thread(&second);
  EXPECT_EQ(second.bytes[0], std::byte{0});  // palette 0: the unit was at rest
  real_table()->leave_thread(&second);
}

#if defined(__x86_64__)
// Another library's configuration and tiles are as they were after our work.
TEST(AmxTest, AnothersTilesAreAsTheyWere) {
  if (real_table() == nullptr) GTEST_SKIP() << "this CPU has no AMX tiles";
  ASSERT_EQ(::syscall(SYS_arch_prctl, 0x1023, 18), 0);
  alignas(64) unsigned char theirs[64] = {1};
  alignas(64) unsigned char after[64];
  for (int t = 0; t < 8; ++t) {
    theirs[16 + 2 * t] = 32;                             // bytes of a row
    theirs[48 + t] = static_cast<unsigned char>(t + 1);  // rows
  }
  alignas(64) unsigned char data[1024], back[1024] = {};
  for (int i = 0; i < 1024; ++i) data[i] = static_cast<unsigned char>(i * 7);
  asm volatile("ldtilecfg %0" : : "m"(theirs));
  asm volatile("tileloadd (%0,%1,1), %%tmm7" : : "r"(data), "r"(64L) : "memory");
  check_attention(*real_table(), bf16_case(40, 24, 33, 70), true);
  asm volatile("sttilecfg %0" : "=m"(after));
  asm volatile("tilestored %%tmm7, (%0,%1,1)" : : "r"(back), "r"(64L) : "memory");
  asm volatile("tilerelease");
  for (int i = 0; i < 64; ++i) ASSERT_EQ(after[i], theirs[i]) << i;
  for (int i = 0; i < 8 * 64; ++i) {
    ASSERT_EQ(back[i], i % 64 < 32 ? data[i] : 0) << i;
  }
}
#endif

}  // namespace
}  // namespace mla::attention::cpu
