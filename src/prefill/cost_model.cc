// The cost model: multiply-adds by kind, each at its measured rate.
#include "prefill/cost_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "prefill/units.h"

namespace mla::prefill {
namespace {

// Nanoseconds of one thread of an Emerald Rapids Xeon, from `mla bench prefill` (docs/prefill.md).
// Only their ratios matter for the choice, so a table serves other machines with its instructions.
struct Rates {
  std::string_view kernels;
  double attend = 0;        // a multiply-add of q k^T or p v, expanded
  double project = 0;       // a multiply-add of the up-projection into panels
  double latent_key = 0;    // to pack a key's latents for projection
  double fold = 0;          // a multiply-add of attention in latent space
  double fold_key = 0;      // to pack a latent key for it, once for each unit's rows
  double few = 0;           // a multiply-add of the path for few rows
  double few_key = 0;       // to make a latent key floats
  double product = 0;       // a multiply-add of q_nope W_UK or o W_UV^T
  double row_granule = 16;  // rows that a step computes at once
};

constexpr double kFewGroup = 16;  // rows of a group of step_few()

constexpr Rates kRates[] = {
    {"amx", 0.0018, 0.0019, 100, 0.0024, 250, 0.0172, 130, 0.029, 16},
    {"avx512_bf16", 0.0300, 0.0300, 150, 0.0300, 200, 0.0172, 130, 0.017, 12},
    {"avx512", 0.0149, 0.0149, 150, 0.0153, 290, 0.0172, 180, 0.017, 12},
    {"avx2", 0.0263, 0.0250, 150, 0.0257, 290, 0.0258, 215, 0.030, 6},
    // Not measured: the ratios of avx2, as is any table that is not listed.
    {"portable", 0.263, 0.250, 1500, 0.257, 2900, 0.258, 2150, 0.300, 6},
};

const Rates& rates_of(std::string_view kernels) {
  for (const Rates& rates : kRates) {
    if (rates.kernels == kernels) return rates;
  }
  return kRates[std::size(kRates) - 1];
}

}  // namespace

Costs model_costs(const Geometry& g, const Tiles& tiles, std::int64_t new_tokens,
                  std::int64_t context_tokens) {
  const Rates& rates = rates_of(g.kernels->name);
  const auto rows = static_cast<double>(new_tokens);
  const auto heads = static_cast<double>(g.num_heads);
  const double keys = rows + static_cast<double>(context_tokens);
  const double seen = static_cast<double>(context_tokens) + (rows + 1) / 2;  // by a row, on average
  const auto rank = static_cast<double>(g.kv_lora_rank);
  const auto up = static_cast<double>(g.dims.qk_nope_head_dim + g.dims.v_head_dim);
  const auto qk_v = static_cast<double>(g.dims.qk_head_dim() + g.dims.v_head_dim);
  const auto latent = static_cast<double>(g.row_width() + g.kv_lora_rank);
  const auto padded = [&](double count) { return std::max(count, rates.row_granule); };
  Costs costs;
  costs.expanded = 1e-9 * (rates.attend * heads * padded(rows) * seen * qk_v +
                           rates.project * heads * keys * rank * up + rates.latent_key * keys);
  const double products = rates.product * rows * heads * rank * up;
  if (new_tokens * g.num_heads <= tiles.few_rows) {
    const double groups = std::ceil(rows * heads / kFewGroup) * kFewGroup;
    costs.absorbed = 1e-9 * (rates.few * groups * seen * latent + rates.few_key * keys + products);
  } else {
    const double units = std::ceil(rows * heads / static_cast<double>(kFoldedChunk));
    costs.absorbed = 1e-9 * (rates.fold * padded(rows * heads) * seen * latent +
                             rates.fold_key * keys * units + products);
  }
  return costs;
}

}  // namespace mla::prefill
