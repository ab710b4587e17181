// The cache's pages: appending new latents, and finding the rows of a stretch of keys.
#include <algorithm>
#include <cstring>

#include "prefill/elements.h"
#include "prefill/run.h"

namespace mla::prefill {
namespace {

// The row of token slot s.
void* cache_row(const RunContext& run, std::int64_t block, std::int64_t row) {
  const PagedCache& cache = run.args.cache;
  return at(cache.data, run.geometry.cache_dtype,
            block * cache.block_stride + row * run.geometry.row_width());
}

const void* new_latent(const RunContext& run, std::int64_t token) {
  return at(run.args.kv_c, run.geometry.dtype, token * run.args.kv_c_stride);
}

const void* new_rope(const RunContext& run, std::int64_t token) {
  return at(run.args.k_pe, run.geometry.dtype, token * run.args.k_pe_stride);
}

// Calls visit(i, row) for the keys below context_tokens, a page at a time.
template <class Visit>
void for_each_context_row(const RunContext& run, std::int64_t request, std::int64_t first,
                          std::int64_t last, Visit visit) {
  const BlockTable& table = run.state.block_table;
  const std::int64_t block_size = run.args.cache.block_size;
  for (std::int64_t key = first; key < last;) {
    const std::int64_t page = key / block_size;
    const std::int64_t block = table.data[request * table.row_stride + page];
    const std::int64_t page_end = std::min(last, (page + 1) * block_size);
    for (; key < page_end; ++key)
      visit(key - first, cache_row(run, block, key - page * block_size));
  }
}

std::int64_t context_end(const RunContext& run, std::int64_t request, std::int64_t first,
                         std::int64_t count) {
  const RequestShape& shape = run.state.requests[static_cast<std::size_t>(request)];
  return std::clamp(shape.context_tokens, first, first + count);
}

std::int64_t token_of(const RunContext& run, std::int64_t request, std::int64_t key) {
  const RequestShape& shape = run.state.requests[static_cast<std::size_t>(request)];
  return shape.first_token + key - shape.context_tokens;
}

}  // namespace

void append_tokens(const RunContext& run, const Unit& unit) {
  const Geometry& g = run.geometry;
  if (run.args.slot_mapping == nullptr) return;
  for (std::int64_t token = unit.begin; token < unit.end; ++token) {
    const std::int64_t slot = run.args.slot_mapping[token];
    if (slot < 0) continue;
    const std::int64_t block_size = run.args.cache.block_size;
    void* row = cache_row(run, slot / block_size, slot % block_size);
    convert_row(new_latent(run, token), g.dtype, row, g.cache_dtype, g.kv_lora_rank);
    if (g.dims.qk_rope_head_dim == 0) continue;
    convert_row(new_rope(run, token), g.dtype, at(row, g.cache_dtype, g.kv_lora_rank),
                g.cache_dtype, g.dims.qk_rope_head_dim);
  }
}

void gather_keys(const RunContext& run, std::int64_t request, std::int64_t first,
                 std::int64_t count, const KeyRows& keys) {
  const Geometry& g = run.geometry;
  const std::int64_t last = context_end(run, request, first, count);
  for_each_context_row(run, request, first, last, [&](std::int64_t i, const void* row) {
    if (g.cache_dtype != g.dtype) {
      void* copy = at(keys.copies, g.dtype, i * g.row_width());
      convert_row(row, g.cache_dtype, copy, g.dtype, g.row_width());
      row = copy;
    }
    keys.latent[i] = row;
    keys.rope[i] = at(row, g.dtype, g.kv_lora_rank);
  });
  for (std::int64_t key = last; key < first + count; ++key) {
    const std::int64_t token = token_of(run, request, key);
    keys.latent[key - first] = new_latent(run, token);
    keys.rope[key - first] = g.dims.qk_rope_head_dim > 0 ? new_rope(run, token) : nullptr;
  }
}

void gather_joined_keys(const RunContext& run, std::int64_t request, std::int64_t first,
                        std::int64_t count, const KeyRows& keys) {
  const Geometry& g = run.geometry;
  gather_keys(run, request, first, count, keys);
  const std::int64_t last = context_end(run, request, first, count);
  for (std::int64_t i = last - first; i < count; ++i) {
    void* copy = at(keys.copies, g.dtype, i * g.row_width());
    convert_row(keys.latent[i], g.dtype, copy, g.dtype, g.kv_lora_rank);
    if (keys.rope[i] != nullptr) {
      convert_row(keys.rope[i], g.dtype, at(copy, g.dtype, g.kv_lora_rank), g.dtype,
                  g.dims.qk_rope_head_dim);
    }
    keys.latent[i] = copy;
  }
}

}  // namespace mla::prefill
