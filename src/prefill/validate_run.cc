// Checks of run()'s arguments: memory first, then where the pages and slots point.
#include <algorithm>
#include <optional>

#include "attention/footprint.h"
#include "prefill/limits.h"
#include "prefill/validate.h"

namespace mla::prefill {
namespace {

using attention::BlockSpec;
using attention::make_block;
using attention::RowBlock;

struct Tensor {
  const char* field;
  DType dtype;
  BlockSpec spec;
};

Status check_tensor(const Tensor& tensor, RowBlock* block) {
  const char* field = tensor.field;
  if (tensor.spec.data == nullptr) return invalid(field, fmt::format("{} is null", field));
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.spec.data);
  if (address % static_cast<std::uintptr_t>(size_of(tensor.dtype)) != 0) {
    return invalid(field, fmt::format("{} is at {:#x}; wanted a multiple of {}", field, address,
                                      size_of(tensor.dtype)));
  }
  const std::optional<RowBlock> made = make_block(tensor.spec);
  if (!made) {
    return invalid(field, fmt::format("{} reaches beyond 64-bit addresses: token_stride={}, "
                                      "head_stride={}",
                                      field, tensor.spec.token_stride, tensor.spec.head_stride));
  }
  *block = *made;
  return {};
}

// The memory of a call; `tokens` of 0: there is none.
struct Footprints {
  RowBlock q, kv_c, k_pe, out, lse, cache;
};

BlockSpec rows(const void* data, std::int64_t tokens, std::int64_t stride, std::int64_t width,
               DType dtype) {
  return {data, 0, tokens, stride != 0 ? stride : width, 1, 0, width, size_of(dtype)};
}

Status check_step_inputs(const PlanState& state, const RunArgs& args, Footprints* found) {
  const Geometry& g = state.geometry;
  const std::int64_t tokens = state.total_tokens;
  if (tokens == 0) return {};
  const Tensor q{"q",
                 g.dtype,
                 {args.q.data, 0, tokens, args.q.token_stride, g.num_heads, args.q.head_stride,
                  g.dims.qk_head_dim(), size_of(g.dtype)}};
  const Tensor kv_c{"kv_c", g.dtype,
                    rows(args.kv_c, tokens, args.kv_c_stride, g.kv_lora_rank, g.dtype)};
  if (args.q.request_offsets != nullptr) {
    return invalid("q", "q.request_offsets is not used by the operator; wanted null");
  }
  if (Status s = check_tensor(q, &found->q); !s) return s;
  if (Status s = check_tensor(kv_c, &found->kv_c); !s) return s;
  if (g.dims.qk_rope_head_dim == 0) return {};
  const Tensor k_pe{"k_pe", g.dtype,
                    rows(args.k_pe, tokens, args.k_pe_stride, g.dims.qk_rope_head_dim, g.dtype)};
  return check_tensor(k_pe, &found->k_pe);
}

Status check_step_outputs(const PlanState& state, const RunArgs& args, Footprints* found) {
  const Geometry& g = state.geometry;
  const std::int64_t tokens = state.total_tokens;
  if (tokens == 0) return {};
  if (args.out.request_offsets != nullptr) {
    return invalid("out", "out.request_offsets is not used by the operator; wanted null");
  }
  const Tensor out{"out",
                   g.out_dtype,
                   {args.out.data, 0, tokens, args.out.token_stride, g.num_heads,
                    args.out.head_stride, g.dims.v_head_dim, size_of(g.out_dtype)}};
  if (Status s = check_tensor(out, &found->out); !s) return s;
  if (args.lse == nullptr) return {};
  // One row of all tokens for each head.
  const std::int64_t stride = args.lse_head_stride != 0 ? args.lse_head_stride : tokens;
  const Tensor lse{"lse", DType::kFloat32, {args.lse, 0, g.num_heads, stride, 1, 0, tokens, 4}};
  return check_tensor(lse, &found->lse);
}

Status check_cache(const PlanState& state, const RunArgs& args, Footprints* found) {
  const Geometry& g = state.geometry;
  const PagedCache& cache = args.cache;
  const bool empty = cache.data == nullptr && cache.num_blocks == 0;
  const bool needed =
      state.max_context > 0 || (args.slot_mapping != nullptr && state.total_tokens > 0);
  if (empty && !needed) return {};
  if (cache.num_blocks < 0 || cache.num_blocks > kMaxBlocks) {
    return out_of_range("cache.num_blocks", cache.num_blocks, 0, kMaxBlocks);
  }
  if (cache.num_blocks == 0) return {};
  if (cache.block_size < 1 || cache.block_size > kMaxBlockSize) {
    return out_of_range("cache.block_size", cache.block_size, 1, kMaxBlockSize);
  }
  const std::int64_t width = cache.block_size * g.row_width();
  // Blocks that are only read may overlap.
  const std::int64_t least = args.slot_mapping != nullptr ? width : 1;
  if (cache.block_stride != 0 && cache.block_stride < least) {
    return invalid("cache.block_stride",
                   fmt::format("cache.block_stride is {}; wanted at least {}, or 0 for "
                               "block_size * (L + rope) = {}",
                               cache.block_stride, least, width));
  }
  const Tensor tensor{"cache", g.cache_dtype,
                      rows(cache.data, cache.num_blocks, cache.block_stride, width, g.cache_dtype)};
  return check_tensor(tensor, &found->cache);
}

Status check_overlaps(const Footprints& found) {
  const struct {
    const char* field;
    const RowBlock& block;
  } written[] = {{"out", found.out}, {"lse", found.lse}}, other[] = {{"q", found.q},
                                                                     {"kv_c", found.kv_c},
                                                                     {"k_pe", found.k_pe},
                                                                     {"cache", found.cache},
                                                                     {"lse", found.lse}};
  for (const auto& output : written) {
    if (output.block.tokens == 0) continue;
    if (attention::overlaps_itself(output.block)) {
      return invalid(output.field, fmt::format("rows of {} overlap each other", output.field));
    }
    for (const auto& input : other) {
      if (input.block.tokens == 0 || &input.block == &output.block) continue;
      if (attention::overlap(output.block, input.block)) {
        return invalid(output.field,
                       fmt::format("{} shares memory with {}", output.field, input.field));
      }
    }
  }
  return {};
}

Status check_slots(const PlanState& state, const RunArgs& args, const Footprints& found) {
  if (args.slot_mapping == nullptr) return {};
  const std::int64_t slots = args.cache.num_blocks * args.cache.block_size;
  std::int64_t highest = -1;
  for (std::int64_t t = 0; t < state.total_tokens; ++t) {
    highest = std::max(highest, args.slot_mapping[t]);
  }
  if (highest < 0) return {};
  for (std::int64_t t = 0; highest >= slots && t < state.total_tokens; ++t) {
    if (args.slot_mapping[t] < slots) continue;
    return invalid("slot_mapping", fmt::format("slot_mapping[{}] is {}; the cache has {} slots", t,
                                               args.slot_mapping[t], slots));
  }
  const struct {
    const char* field;
    const RowBlock& block;
  } inputs[] = {{"q", found.q}, {"kv_c", found.kv_c}, {"k_pe", found.k_pe}};
  for (const auto& input : inputs) {
    if (input.block.tokens == 0 || !attention::overlap(found.cache, input.block)) continue;
    return invalid("cache", fmt::format("cache is written and shares memory with {}", input.field));
  }
  return {};
}

Status check_pages(const PlanState& state, const RunArgs& args) {
  const BlockTable& table = state.block_table;
  const PagedCache& cache = args.cache;
  for (std::size_t r = 0; r < state.requests.size(); ++r) {
    const RequestShape& request = state.requests[r];
    if (request.context_tokens == 0 || request.new_tokens == 0) continue;
    if (cache.num_blocks == 0) {
      return invalid("cache", fmt::format("cache is empty, yet context_lens[{}] is {}", r,
                                          request.context_tokens));
    }
    const std::int64_t blocks = ceil_div(request.context_tokens, cache.block_size);
    if (blocks > table.max_blocks) {
      return invalid("block_table", fmt::format("context_lens[{}] is {}, {} blocks of {}; "
                                                "block_table has max_blocks={}",
                                                r, request.context_tokens, blocks, cache.block_size,
                                                table.max_blocks));
    }
    const std::int32_t* row = table.data + static_cast<std::int64_t>(r) * table.row_stride;
    std::int32_t low = 0, high = 0;
    for (std::int64_t b = 0; b < blocks; ++b) {
      low = std::min(low, row[b]);
      high = std::max(high, row[b]);
    }
    if (low >= 0 && high < cache.num_blocks) continue;
    const std::int64_t bad =
        std::find_if(row, row + blocks,
                     [&](std::int32_t block) { return block < 0 || block >= cache.num_blocks; }) -
        row;
    return invalid("block_table", fmt::format("block_table[{},{}] is {}; the cache has {} blocks",
                                              r, bad, row[bad], cache.num_blocks));
  }
  return {};
}

}  // namespace

Status check_inputs(const PlanState& state, const RunArgs& args) {
  Footprints found;
  if (Status s = check_step_inputs(state, args, &found); !s) return s;
  if (Status s = check_cache(state, args, &found); !s) return s;
  return check_pages(state, args);
}

Status check_run(const PlanState& state, const RunArgs& args) {
  Footprints found;
  if (Status s = check_step_inputs(state, args, &found); !s) return s;
  if (Status s = check_step_outputs(state, args, &found); !s) return s;
  if (Status s = check_cache(state, args, &found); !s) return s;
  if (Status s = check_overlaps(found); !s) return s;
  if (Status s = check_slots(state, args, found); !s) return s;
  return check_pages(state, args);
}

}  // namespace mla::prefill
