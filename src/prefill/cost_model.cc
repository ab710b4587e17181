// The cost model: multiply-adds by kind, each at the rate that was measured for the table.
#include "prefill/cost_model.h"

#include <algorithm>
#include <cmath>

#include "prefill/units.h"

namespace mla::prefill {
namespace {

constexpr double kFewGroup = 16;    // rows of a group of step_few()
constexpr double kKeyGranule = 16;  // keys that project() computes at once

}  // namespace

Costs model_costs(const Geometry& g, const Tiles& tiles, std::int64_t new_tokens,
                  std::int64_t context_tokens) {
  const attention::cpu::Rates& rates = g.kernels->rates;
  const attention::cpu::Rates& product_rates = g.products->rates;  // of few rows as well
  const auto rows = static_cast<double>(new_tokens);
  const auto heads = static_cast<double>(g.num_heads);
  const double keys = rows + static_cast<double>(context_tokens);
  const double seen = static_cast<double>(context_tokens) + (rows + 1) / 2;  // by a row, on average
  const auto rank = static_cast<double>(g.kv_lora_rank);
  const auto up = static_cast<double>(g.dims.qk_nope_head_dim + g.dims.v_head_dim);
  const auto qk_v = static_cast<double>(g.dims.qk_head_dim() + g.dims.v_head_dim);
  const auto latent = static_cast<double>(g.row_width() + g.kv_lora_rank);
  const double projected = std::ceil(keys / kKeyGranule) * kKeyGranule;
  const auto padded = [&](double count) { return std::max(count, rates.row_granule); };
  Costs costs;
  costs.expanded = 1e-9 * (rates.attend * heads * padded(rows) * seen * qk_v +
                           rates.project * heads * projected * rank * up + rates.latent_key * keys);
  const double products = product_rates.product * rows * heads * rank * up;
  if (new_tokens * g.num_heads <= tiles.few_rows) {
    const double groups = std::ceil(rows * heads / kFewGroup) * kFewGroup;
    costs.absorbed = 1e-9 * (product_rates.few * groups * seen * latent +
                             product_rates.few_key * keys + products);
  } else {
    const double units = std::ceil(rows * heads / static_cast<double>(kFoldedChunk));
    costs.absorbed = 1e-9 * (rates.fold * padded(rows * heads) * seen * latent +
                             rates.fold_key * keys * units + products);
  }
  return costs;
}

}  // namespace mla::prefill
