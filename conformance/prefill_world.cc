// Making a step's weights, tokens and pages.
#include "prefill_world.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <utility>

#include "number.h"

namespace mla::conformance {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Uniform with a root mean square of `rms`.
void randomize(Elements& elements, std::mt19937_64& engine, double rms) {
  std::uniform_real_distribution<double> value(-std::sqrt(3.0) * rms, std::sqrt(3.0) * rms);
  for (std::int64_t i = 0; i < elements.count(); ++i) elements.set(i, value(engine));
}

}  // namespace

std::string to_string(const WorldSpec& spec) {
  std::ostringstream text;
  text << name(spec.dtype) << ", form " << prefill::name(spec.form) << ", H=" << spec.num_heads
       << " " << mla::to_string(spec.dims) << " L=" << spec.kv_lora_rank
       << " block_size=" << spec.block_size << " seed=" << spec.seed
       << " page_seed=" << spec.page_seed << " new+context=";
  for (std::size_t r = 0; r < spec.requests.size(); ++r) {
    text << (r == 0 ? "" : ",") << spec.requests[r].new_tokens << "+"
         << spec.requests[r].context_tokens;
  }
  return text.str();
}

Elements::Elements(DType dtype, std::int64_t count)
    : dtype_(dtype), bytes_(static_cast<std::size_t>(count * size_of(dtype))) {}

void Elements::set(std::int64_t i, double value) { store(dtype_, value, at(i)); }

double Elements::get(std::int64_t i) const {
  return load(dtype_, bytes_.data() + i * size_of(dtype_));
}

void Elements::fill(double value) {
  for (std::int64_t i = 0; i < count(); ++i) set(i, value);
}

World::World(WorldSpec spec) : spec_(std::move(spec)) {
  make_tokens();
  place_pages();
}

void World::make_tokens() {
  std::mt19937_64 engine(spec_.seed);
  cu_seqlens.push_back(0);
  for (const StepLengths& request : spec_.requests) {
    cu_seqlens.push_back(static_cast<std::int32_t>(cu_seqlens.back() + request.new_tokens));
    context_lens.push_back(request.context_tokens);
  }
  const std::int64_t tokens = total_tokens(), heads = spec_.num_heads;
  const MlaDims& dims = spec_.dims;
  kv_b_proj =
      Elements(spec_.dtype, heads * (dims.qk_nope_head_dim + dims.v_head_dim) * spec_.kv_lora_rank);
  randomize(kv_b_proj, engine, 1.0 / std::sqrt(static_cast<double>(spec_.kv_lora_rank)));
  q = Elements(spec_.dtype, tokens * heads * dims.qk_head_dim());
  randomize(q, engine, 1.0);
  kv_c = Elements(spec_.dtype, tokens * spec_.kv_lora_rank);
  randomize(kv_c, engine, 1.0);
  k_pe = Elements(spec_.dtype, tokens * dims.qk_rope_head_dim);
  randomize(k_pe, engine, 1.0);
  out = Elements(spec_.dtype, tokens * heads * dims.v_head_dim);
  out.fill(kNaN);
  lse = Elements(DType::kFloat32, tokens * heads);
  lse.fill(kNaN);
}

// Room for context and new tokens of every request, and two blocks that are nobody's.
void World::place_pages() {
  for (const StepLengths& request : spec_.requests) {
    max_blocks = std::max(max_blocks, pages_of(request));
    num_blocks += pages_of(request);
  }
  num_blocks += 2;
  std::vector<std::int32_t> pages;
  for (std::int32_t b = 0; b < num_blocks; ++b) pages.push_back(b);
  std::mt19937_64 places(spec_.page_seed);
  std::shuffle(pages.begin(), pages.end(), places);
  cache = Elements(spec_.dtype, num_blocks * spec_.block_size * row_width());
  cache.fill(kNaN);
  block_table.assign(spec_.requests.size() * static_cast<std::size_t>(max_blocks), -7);
  std::mt19937_64 engine(spec_.seed + 1);
  std::uniform_real_distribution<double> value(-std::sqrt(3.0), std::sqrt(3.0));
  std::size_t next = 0;
  for (std::size_t r = 0; r < spec_.requests.size(); ++r) {
    const StepLengths& request = spec_.requests[r];
    std::int32_t* row = block_table.data() + r * static_cast<std::size_t>(max_blocks);
    for (std::int64_t b = 0; b < pages_of(request); ++b) row[b] = pages[next++];
    for (std::int64_t key = 0; key < request.context_tokens; ++key) {
      for (std::int64_t i = 0; i < row_width(); ++i) {
        cache.set(slot(r, key) * row_width() + i, value(engine));
      }
    }
    for (std::int64_t i = 0; i < request.new_tokens; ++i) {
      slot_mapping.push_back(slot(r, request.context_tokens + i));
    }
  }
}

std::int64_t World::pages_of(const StepLengths& request) const {
  return (request.context_tokens + request.new_tokens + spec_.block_size - 1) / spec_.block_size;
}

std::int64_t World::slot(std::size_t request, std::int64_t token) const {
  const std::size_t at = request * static_cast<std::size_t>(max_blocks) +
                         static_cast<std::size_t>(token / spec_.block_size);
  return block_table[at] * spec_.block_size + token % spec_.block_size;
}

double World::latent(std::int64_t t, std::int64_t i) const {
  const std::int64_t rank = spec_.kv_lora_rank, rope = spec_.dims.qk_rope_head_dim;
  return i < rank ? kv_c.get(t * rank + i) : k_pe.get(t * rope + i - rank);
}

bool World::written(const World& other) const {
  return !(out == other.out && lse == other.lse && cache == other.cache);
}

PrefillCall World::call() {
  PrefillCall call;
  const MlaDims& dims = spec_.dims;
  call.config.num_heads = spec_.num_heads;
  call.config.dims = dims;
  call.config.kv_lora_rank = spec_.kv_lora_rank;
  call.config.dtype = spec_.dtype;
  call.config.form = spec_.form;
  call.weights.dtype = spec_.dtype;
  call.weights.kv_b_proj = kv_b_proj.at(0);
  call.batch.num_requests = static_cast<std::int64_t>(spec_.requests.size());
  call.batch.cu_seqlens_q = cu_seqlens.data();
  call.batch.context_lens = context_lens.data();
  call.batch.block_table = {block_table.data(), max_blocks, 0};
  const std::int64_t dq = dims.qk_head_dim(), dv = dims.v_head_dim;
  call.args.q = {q.at(0), spec_.num_heads * dq, dq, nullptr};
  call.args.kv_c = kv_c.at(0);
  call.args.k_pe = k_pe.at(0);
  call.args.cache = {cache.at(0), num_blocks, spec_.block_size, 0};
  call.args.slot_mapping = slot_mapping.data();
  call.args.out = {out.at(0), spec_.num_heads * dv, dv, nullptr};
  call.args.lse = reinterpret_cast<float*>(lse.at(0));
  return call;
}

PrefillCall World::part(const std::int64_t* done, const std::int32_t* cu) {
  PrefillCall part = call();
  part.batch.cu_seqlens_q = cu;
  part.batch.context_lens = done;
  part.args.q.data = q.at(*done * part.args.q.token_stride);
  part.args.kv_c = kv_c.at(*done * spec_.kv_lora_rank);
  part.args.k_pe = k_pe.at(*done * spec_.dims.qk_rope_head_dim);
  part.args.slot_mapping += *done;
  part.args.out.data = out.at(*done * part.args.out.token_stride);
  part.args.lse += *done;
  part.args.lse_head_stride = total_tokens();
  return part;
}

}  // namespace mla::conformance
