// Every table this machine can run, and wide tilings with emulated lanes, against double loops.
#include "attention/cpu/isa/portable/lanes.h"
#include "attention/cpu/kernels_check.h"
#include "attention/cpu/table.h"

namespace mla::attention::cpu {
namespace {

constexpr Kernels kEmulated16 = Table<Lanes<16, 12, 32, false>>::kernels("emulated16");
constexpr Kernels kEmulatedPairs = Table<Lanes<16, 12, 32, true>>::kernels("emulated_pairs");

struct Candidate {
  const char* name;
  const Kernels* table;
  bool rounds_to_bf16;
};

std::vector<Candidate> candidates() {
  std::vector<Candidate> found = {{"emulated16", &kEmulated16, false},
                                  {"emulated_pairs", &kEmulatedPairs, true}};
  for (const char* name :
       {"portable", "avx2", "avx512", "avx512_bf16", "amx", "neon", "neon_bf16"}) {
    const Kernels* const table = find_kernels(name);
    if (table == nullptr || !runs_here(name)) continue;
    found.push_back(
        {name, table, std::string(name).ends_with("bf16") || std::string(name) == "amx"});
  }
  return found;
}

class KernelsTest : public testing::TestWithParam<Candidate> {
 protected:
  std::vector<DType> dtypes(std::int64_t dq, std::int64_t dv) const {
    std::vector<DType> supported;
    for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      if (GetParam().table->supports({dtype, dq, dv})) supported.push_back(dtype);
    }
    return supported;
  }
  const Kernels& table() const { return *GetParam().table; }
};

TEST_P(KernelsTest, AttendsOverAnyShape) {
  const struct {
    std::int64_t dq, dv;
  } dims[] = {{192, 128}, {1, 1}, {7, 33}, {24, 16}, {65, 97}, {576, 512}};
  for (const auto& d : dims) {
    for (DType dtype : dtypes(d.dq, d.dv)) {
      const std::int64_t block_q = table().blocking({dtype, d.dq, d.dv}).block_q;
      for (std::int64_t rows : {std::int64_t{1}, std::int64_t{5}, std::int64_t{13}, block_q}) {
        for (std::int64_t keys : {1, 2, 17, 64, 301}) {
          KernelCase c;
          c.dtype = dtype;
          c.qk_head_dim = d.dq;
          c.v_head_dim = d.dv;
          c.rows = rows;
          c.keys = keys;
          c.scale = 1 / std::sqrt(static_cast<float>(d.dq));
          for (bool causal : {false, true}) {
            c.causal = causal;
            check_attention(table(), c, GetParam().rounds_to_bf16);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(KernelsTest, TakesAnyScale) {
  for (float scale : {0.0f, -0.3f, 1.0f, 1e-30f}) {
    for (DType dtype : dtypes(24, 16)) {
      KernelCase c;
      c.dtype = dtype;
      c.qk_head_dim = 24;
      c.v_head_dim = 16;
      c.rows = 9;
      c.keys = 300;
      c.scale = scale;
      c.causal = true;
      check_attention(table(), c, GetParam().rounds_to_bf16);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(KernelsTest, ProjectsIntoPanels) {
  const ProjectionCase cases[] = {{DType::kFloat32, 128, 64, 128, 512, 33},
                                  {DType::kFloat32, 16, 8, 16, 32, 1},
                                  {DType::kFloat32, 13, 5, 19, 37, 30},
                                  {DType::kFloat32, 7, 4, 8, 33, 31},
                                  {DType::kFloat32, 8, 0, 40, 16, 17}};
  for (ProjectionCase c : cases) {
    for (DType dtype : dtypes(c.nope + c.rope, c.v_head_dim)) {
      c.dtype = dtype;
      check_projection(table(), c, GetParam().rounds_to_bf16);
      if (HasFatalFailure()) return;
    }
  }
}

// A key that a row does not see may hold anything, in a panel of either parity.
TEST_P(KernelsTest, UnseenKeysReachNoRow) {
  for (DType dtype : dtypes(24, 40)) {
    const Shape shape = {dtype, 24, 40};
    for (std::int64_t keys : {20, 33}) {
      std::mt19937_64 random(3);
      ElementMatrix q(dtype, 13, 24), k(dtype, keys, 24), v(dtype, keys, 40),
          out(DType::kFloat32, 13, 40);
      for (ElementMatrix* m : {&q, &k, &v}) m->fill(random);
      std::vector<std::int64_t> seen;
      for (std::int64_t r = 0; r < 13; ++r)
        seen.push_back(std::max<std::int64_t>(0, r + keys - 16));
      const Attended want = attend_in_double(q, k, v, shape, 0.2, seen);
      for (std::int64_t j = seen.back(); j < keys; ++j) {
        for (std::int64_t d = 0; d < 24; ++d) k.set(j, d, NAN);
        for (std::int64_t d = 0; d < 40; ++d) v.set(j, d, d % 2 != 0 ? NAN : INFINITY);
      }
      BlockRun run(table(), shape, 0.2f, q);
      const bool finite =
          table().pack_panel(shape, k.row_pointers(), v.row_pointers(), keys, run.panel());
      EXPECT_FALSE(finite);
      run.add(0, keys, finite, seen);
      std::vector<float> lse(13);
      run.finish(out, lse);
      expect_attended(want, out, lse, shape, tolerance_of(GetParam().rounds_to_bf16));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(KernelsTest, KnowsItsPeak) { EXPECT_GT(table().probe_peak(DType::kBFloat16, 5), 0.01); }

INSTANTIATE_TEST_SUITE_P(Tables, KernelsTest, testing::ValuesIn(candidates()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mla::attention::cpu
