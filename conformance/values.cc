// Properties of the numbers: any dims, any lengths, any mask.
#include <algorithm>
#include <limits>
#include <random>

#include "properties.h"

namespace mla::conformance {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// (Dq, Dv) of the model families, then odd ones.
const std::vector<Dims> kDims = {{192, 128}, {256, 256}, {128, 128},  {96, 64}, {576, 512},
                                 {1, 1},     {1, 17},    {3, 1},      {17, 3},  {33, 31},
                                 {63, 65},   {100, 36},  {127, 129},  {255, 7}, {7, 255},
                                 {16, 1024}, {1024, 16}, {1024, 1024}};

}  // namespace

void check_dims(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    for (const Dims& dims : trial.all_dims_or(kDims)) {
      BatchSpec spec = trial.spec(dtype);
      spec.qk_dim = dims.qk;
      spec.v_dim = dims.v;
      spec.q_lengths = {37, 1, 20};
      spec.k_lengths = {70, 9, 20};
      trial.check(spec);
    }
  }
}

void check_ragged(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    for (std::int64_t heads : {1, 3}) {
      BatchSpec spec = trial.model_spec(dtype);
      spec.heads = heads;
      spec.q_lengths = {300, 17, 0, 1, 64, 128, 5};
      spec.k_lengths = {300, 17, 3, 1, 64, 200, 400};
      trial.check(spec);
    }
  }
}

// Both sides of every block edge that an implementation might have.
void check_block_edges(Trial& trial) {
  constexpr std::int64_t kQueries[] = {1, 2, 6, 7, 15, 16, 17, 33, 63, 64, 65, 129};
  constexpr std::int64_t kKeys[] = {1,  8,   15,  16,  17,  31,  33,  63,  64,
                                    65, 127, 128, 129, 192, 255, 256, 257, 513};
  for (DType dtype : trial.dtypes()) {
    for (bool causal : {true, false}) {
      BatchSpec spec = trial.spec(dtype);
      spec.heads = 1;
      spec.causal = causal;
      for (std::int64_t m : kQueries) {
        for (std::int64_t n : kKeys) {
          spec.q_lengths.push_back(m);
          spec.k_lengths.push_back(n);
        }
      }
      trial.check(spec);
    }
    BatchSpec spec = trial.spec(dtype);
    spec.heads = 1;
    spec.q_lengths = {511, 512, 513, 257, 193, 383};
    spec.k_lengths = {511, 512, 513, 1025, 1024, 384};
    trial.check(spec);
  }
}

void check_long_context(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.model_spec(dtype);
    spec.heads = 1;
    spec.q_lengths = {16, 1, 130};
    spec.k_lengths = {2065, 4099, 1500};
    trial.check(spec);
  }
}

void check_causal_alignment(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.spec(dtype);
    for (std::int64_t m : {1, 2, 3, 31, 64, 70, 150}) {
      for (std::int64_t n : {1, 2, 3, 30, 64, 71, 149}) {
        spec.q_lengths.push_back(m);
        spec.k_lengths.push_back(n);
      }
    }
    trial.check(spec);
  }
}

void check_causal_offsets(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.spec(dtype);
    for (std::int64_t offset :
         {kMin, kMin + 1, std::int64_t{-80}, std::int64_t{-70}, std::int64_t{-69}, std::int64_t{-1},
          std::int64_t{0}, std::int64_t{1}, std::int64_t{40}, std::int64_t{88}, std::int64_t{89},
          std::int64_t{90}, kMax - 1, kMax}) {
      spec.q_lengths.push_back(70);
      spec.k_lengths.push_back(90);
      spec.causal_offsets.push_back(offset);
    }
    trial.check(spec);
  }
}

void check_all_keys(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.model_spec(dtype);
    spec.causal = false;
    spec.q_lengths = {130, 1, 7, 200};
    spec.k_lengths = {257, 100, 3, 64};
    trial.check(spec);
  }
}

void check_empty(Trial& trial) {
  const struct {
    std::vector<std::int64_t> q, k;
  } cases[] = {{{}, {}},
               {{0}, {0}},
               {{0}, {5}},
               {{5}, {0}},
               {{0, 0}, {0, 0}},
               {{40, 3}, {1, 0}},
               {{0, 9, 0}, {4, 9, 0}},
               {{200}, {70}},
               {{3, 0, 2, 0}, {0, 7, 2, 0}}};
  for (DType dtype : trial.dtypes()) {
    for (const auto& c : cases) {
      for (bool causal : {true, false}) {
        BatchSpec spec = trial.spec(dtype);
        spec.q_lengths = c.q;
        spec.k_lengths = c.k;
        spec.causal = causal;
        trial.check(spec);
      }
    }
  }
}

void check_float32_out(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.model_spec(dtype);
    spec.out_dtype = DType::kFloat32;
    spec.q_lengths = {100, 33, 4};
    spec.k_lengths = {100, 90, 0};
    trial.check(spec);
  }
}

void check_random(Trial& trial) {
  const std::vector<DType> dtypes = trial.dtypes();
  for (int b = 0; b < trial.options().random_batches && !trial.failed(); ++b) {
    std::mt19937_64 random(trial.next_seed());
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    BatchSpec spec = trial.spec(dtypes[random() % dtypes.size()]);
    if (trial.any_dims()) {
      spec.qk_dim = 1 + below(below(3) == 0 ? 300 : 40);
      spec.v_dim = 1 + below(below(3) == 0 ? 300 : 40);
    }
    spec.heads = 1 + below(4);
    spec.causal = below(3) != 0;
    spec.layout = kAllLayouts[random() % std::size(kAllLayouts)];
    if (spec.layout == Layout::kLatent) spec.v_dim = std::min(spec.v_dim, spec.qk_dim);
    if (!trial.any_dims() && spec.layout == Layout::kLatent) spec.layout = Layout::kDense;
    spec.values = static_cast<Values>(below(4));
    if (spec.values == Values::kLarge) spec.scale = 1.0f;
    spec.with_lse = below(4) != 0;
    spec.lse_gap = below(3);
    spec.wide_offsets = below(2) == 0;
    if (below(4) == 0) spec.out_dtype = DType::kFloat32;
    const bool offsets = spec.causal && below(3) == 0;
    for (std::int64_t r = below(6); r >= 0; --r) {
      spec.q_lengths.push_back(below(4) == 0 ? below(3) : below(150));
      spec.k_lengths.push_back(below(4) == 0 ? below(3) : below(300));
      if (offsets) spec.causal_offsets.push_back(below(400) - 200);
    }
    trial.check(spec);
  }
}

}  // namespace mla::conformance
