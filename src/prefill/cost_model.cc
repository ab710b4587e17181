// The cost model: multiply-adds by kind, each at its measured rate.
#include "prefill/cost_model.h"

#include <algorithm>
#include <string_view>

namespace mla::prefill {
namespace {

// Nanoseconds, measured by `mla bench prefill --calibrate`.
struct Rates {
  std::string_view kernels;
  double attend = 0;       // a multiply-add of q k^T or p v, expanded
  double project = 0;      // a multiply-add of the up-projection into panels
  double latent_key = 0;   // to pack a key's latents for projection
  double fold = 0;         // a multiply-add of attention in latent space
  double fold_key = 0;     // to pack a latent key for it
  double product = 0;      // a multiply-add of q_nope W_UK or o W_UV^T
  double row_granule = 1;  // rows that a step computes at once
};

constexpr Rates kRates[] = {
    {"portable", 0.40, 0.40, 400, 0.40, 400, 0.40, 4},
};

const Rates& rates_of(std::string_view kernels) {
  for (const Rates& rates : kRates) {
    if (rates.kernels == kernels) return rates;
  }
  return kRates[0];
}

}  // namespace

Costs model_costs(const Geometry& g, const Tiles&, std::int64_t new_tokens,
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
  costs.absorbed = 1e-9 * (rates.fold * padded(rows * heads) * seen * latent +
                           rates.fold_key * keys + rates.product * rows * heads * rank * up);
  return costs;
}

}  // namespace mla::prefill
