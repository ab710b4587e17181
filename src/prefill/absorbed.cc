// The absorbed form: attention among latents, all heads of a request folded into the query rows.
//
//   queries   q' = [q_nope W_UK | q_pe]            one row for each token and head
//   attend    S = q' [kv_c | k_pe]^T, P = softmax(S), O' += P kv_c     over one part of the keys
//   outputs   merge of the parts by their lse, in their order; out = O' W_UV^T
//
// A latent row is K for every head and, but for its rope part, V as well.
#include <algorithm>
#include <cmath>
#include <limits>

#include "prefill/elements.h"
#include "prefill/run.h"

namespace mla::prefill {
namespace {

// Where the phases of a round meet.
class RoundMemory {
 public:
  explicit RoundMemory(const RunContext& run) : g_(run.geometry) {
    queries_ = run.scratch + run.state.layout.queries_offset;
    partial_ = reinterpret_cast<float*>(run.scratch + run.state.layout.partial_offset);
    lse_ = reinterpret_cast<float*>(run.scratch + run.state.layout.lse_offset);
  }
  void* query(std::int64_t row) const { return at(queries_, g_.dtype, row * g_.row_width()); }
  float* partial(std::int64_t row) const { return partial_ + row * g_.kv_lora_rank; }
  float* lse(std::int64_t row) const { return lse_ + row; }

 private:
  const Geometry& g_;
  std::byte* queries_;
  float* partial_;
  float* lse_;
};

// The places [begin, end) of a round as (job, token of the job), in order.
template <class Visit>
void for_each_place(const Round& round, std::int64_t begin, std::int64_t end, Visit visit) {
  const auto after =
      std::upper_bound(round.jobs.begin(), round.jobs.end(), begin,
                       [](std::int64_t place, const Job& job) { return place < job.first; });
  auto job = after - 1;
  for (std::int64_t place = begin; place < end; ++place) {
    if (place - job->first >= job->end - job->begin) ++job;
    visit(place - begin, *job, place - job->first);
  }
}

std::int64_t token_of(const RunContext& run, const Job& job, std::int64_t i) {
  return run.state.requests[static_cast<std::size_t>(job.request)].first_token + job.begin + i;
}

class Walk {
 public:
  Walk(const RunContext& run, const Job& job, const Unit& unit, std::byte* memory)
      : run_(run),
        g_(run.geometry),
        job_(job),
        unit_(unit),
        request_(run.state.requests[static_cast<std::size_t>(job.request)]),
        round_(run),
        // By the request's rows, so that its bits do not depend on how it is cut into units.
        few_(request_.new_tokens * g_.num_heads <= run.tiles.few_rows),
        kernels_(few_ ? *g_.products : *g_.kernels),
        tile_(few_ ? run.tiles.few : run.tiles.absorbed),
        blocks_(ceil_div(unit.end - unit.begin, tile_.block_q)) {
    Bump bump(memory);
    memory_ =
        few_ ? carve_few(g_, run.tiles, &bump) : carve_absorbed(g_, run.tiles, blocks_, &bump);
  }

  void run() {
    load_queries();
    const std::int64_t part_begin = unit_.part * request_.keys_per_part;
    const std::int64_t end =
        std::min(part_begin + request_.keys_per_part, seen_by_row(unit_.end - 1));
    std::int64_t first = part_begin;
    if (few_) first = attend_few(first, std::min(end, seen_by_row(unit_.begin)));
    for (; first < end; first += tile_.block_k) {
      attend_keys(first, std::min(tile_.block_k, end - first));
    }
    write_partial();
  }

 private:
  std::int64_t first_row(std::int64_t block) const { return unit_.begin + block * tile_.block_q; }
  std::int64_t row_count(std::int64_t block) const {
    return std::min(tile_.block_q, unit_.end - first_row(block));
  }
  std::int64_t seen_by_row(std::int64_t row) const {
    return request_.context_tokens + job_.begin + row / g_.num_heads + 1;
  }

  void load_queries() {
    const cpu::Shape shape = g_.absorbed_shape();
    for (std::int64_t b = 0; b < blocks_; ++b) {
      for (std::int64_t i = 0; i < row_count(b); ++i) {
        memory_.query_rows[i] = round_.query(job_.first * g_.num_heads + first_row(b) + i);
      }
      kernels_.pack_queries(shape, memory_.query_rows, row_count(b), memory_.queries(b));
      kernels_.begin(shape, row_count(b), memory_.state(b));
    }
    if (few_) kernels_.pack_few(shape, memory_.query_rows, row_count(0), memory_.few);
  }

  // Up to `end`, where the keys begin that some row does not see: one may hold NaN, which step()
  // keeps from such rows and step_few() does not.
  std::int64_t attend_few(std::int64_t first, std::int64_t end) {
    cpu::FewStep step;
    step.k_rows = memory_.keys.latent;
    step.rows = row_count(0);
    for (; first < end; first += step.keys) {
      const std::int64_t count = std::min(kFewKeys, end - first);
      gather_joined_keys(run_, job_.request, first, count, memory_.keys);
      step.ahead = first + count < end ? kFewKeysAhead : 0;
      step.keys = count - step.ahead;
      kernels_.step_few(g_.absorbed_shape(), g_.scale, step, memory_.state(0), memory_.few);
    }
    return first;
  }

  void attend_keys(std::int64_t first, std::int64_t count) {
    gather_joined_keys(run_, job_.request, first, count, memory_.keys);
    const cpu::Shape shape = g_.absorbed_shape();
    cpu::Step step;
    step.panel = memory_.panel;
    step.keys = count;
    step.panel_finite =
        kernels_.pack_panel(shape, memory_.keys.latent, memory_.keys.latent, count, memory_.panel);
    for (std::int64_t b = 0; b < blocks_; ++b) {
      if (seen_by_row(first_row(b) + row_count(b) - 1) <= first) continue;
      step.queries = memory_.queries(b);
      step.rows = row_count(b);
      step.visible = visible(b, first, count);
      kernels_.step(shape, g_.scale, step, memory_.state(b), memory_.scratch);
    }
  }

  const std::int32_t* visible(std::int64_t block, std::int64_t first, std::int64_t count) {
    if (seen_by_row(first_row(block)) - first >= count) return nullptr;
    for (std::int64_t i = 0; i < row_count(block); ++i) {
      const std::int64_t seen = seen_by_row(first_row(block) + i) - first;
      memory_.visible[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(seen, 0, count));
    }
    return memory_.visible;
  }

  void write_partial() {
    const std::int64_t job_rows = (job_.end - job_.begin) * g_.num_heads;
    const std::int64_t base = job_.partial_row + unit_.part * job_rows;
    for (std::int64_t b = 0; b < blocks_; ++b) {
      for (std::int64_t i = 0; i < row_count(b); ++i) {
        memory_.out_rows[i] = round_.partial(base + first_row(b) + i);
        memory_.lse_rows[i] = round_.lse(base + first_row(b) + i);
      }
      kernels_.finish(g_.absorbed_shape(), row_count(b), memory_.state(b), DType::kFloat32,
                      memory_.out_rows, memory_.lse_rows);
    }
  }

  const RunContext& run_;
  const Geometry& g_;
  const Job& job_;
  const Unit& unit_;
  const RequestShape& request_;
  const RoundMemory round_;
  const bool few_;
  const cpu::Kernels& kernels_;
  const cpu::Blocking& tile_;
  const std::int64_t blocks_;
  AttendMemory memory_;
};

// The parts of a folded row: part p at row + p * stride.
struct Parts {
  std::int64_t row = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
};

// The latent output of a row, merged into `merged` where there are several parts.
const float* merge_parts(const RoundMemory& round, const Parts& parts, std::int64_t rank,
                         float* merged, float* lse) {
  *lse = *round.lse(parts.row);
  if (parts.count == 1) return round.partial(parts.row);
  float top = -std::numeric_limits<float>::infinity();
  bool nan = false;
  for (std::int64_t p = 0; p < parts.count; ++p) {
    const float value = *round.lse(parts.row + p * parts.stride);
    top = std::max(top, value);
    nan = nan || std::isnan(value);
  }
  std::fill_n(merged, rank, nan ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
  *lse = nan ? std::numeric_limits<float>::quiet_NaN() : top;
  if (nan || std::isinf(top)) return merged;
  float sum = 0.0f;
  for (std::int64_t p = 0; p < parts.count; ++p) {
    const std::int64_t row = parts.row + p * parts.stride;
    const float weight = std::exp(*round.lse(row) - top);
    if (weight == 0.0f) continue;
    const float* from = round.partial(row);
    for (std::int64_t i = 0; i < rank; ++i) merged[i] += weight * from[i];
    sum += weight;
  }
  for (std::int64_t i = 0; i < rank; ++i) merged[i] /= sum;
  *lse = top + std::log(sum);
  return merged;
}

}  // namespace

void attend_absorbed(const RunContext& run, const Round& round, const Unit& unit,
                     std::byte* memory) {
  Walk(run, round.jobs[static_cast<std::size_t>(unit.target)], unit, memory).run();
}

void make_queries(const RunContext& run, const Round& round, const Unit& unit, std::byte* memory) {
  const Geometry& g = run.geometry;
  Bump bump(memory);
  const ProductMemory product = carve_product(g, &bump);
  const RoundMemory shared(run);
  const std::int64_t head = unit.target;
  const std::int64_t nope = g.dims.qk_nope_head_dim;
  for (std::int64_t first = unit.begin; first < unit.end; first += kProductRows) {
    const std::int64_t count = std::min(kProductRows, unit.end - first);
    for_each_place(
        round, first, first + count, [&](std::int64_t i, const Job& job, std::int64_t token) {
          const attention::ConstRows& q = run.args.q;
          product.a[i] = at(q.data, g.dtype,
                            token_of(run, job, token) * q.token_stride + head * q.head_stride);
          product.out[i] = shared.query((first + i) * g.num_heads + head);
          convert_row(at(product.a[i], g.dtype, nope), g.dtype,
                      at(product.out[i], g.dtype, g.kv_lora_rank), g.dtype,
                      g.dims.qk_rope_head_dim);
        });
    g.products->multiply(run.weights.w_uk_shape(), run.weights.w_uk(head),
                         {product.a, product.out, count});
  }
}

void make_outputs(const RunContext& run, const Round& round, const Unit& unit, std::byte* memory) {
  const Geometry& g = run.geometry;
  Bump bump(memory);
  const ProductMemory product = carve_product(g, &bump);
  const RoundMemory shared(run);
  const std::int64_t head = unit.target;
  for (std::int64_t first = unit.begin; first < unit.end; first += kProductRows) {
    const std::int64_t count = std::min(kProductRows, unit.end - first);
    for_each_place(
        round, first, first + count, [&](std::int64_t i, const Job& job, std::int64_t token) {
          const std::int64_t t = token_of(run, job, token);
          const Parts parts{job.partial_row + token * g.num_heads + head,
                            (job.end - job.begin) * g.num_heads, job.parts};
          float lse = 0.0f;
          product.a[i] =
              merge_parts(shared, parts, g.kv_lora_rank, product.merged + i * g.kv_lora_rank, &lse);
          const attention::Rows& out = run.args.out;
          product.out[i] = at(out.data, g.out_dtype, t * out.token_stride + head * out.head_stride);
          if (run.args.lse != nullptr) run.args.lse[head * run.args.lse_head_stride + t] = lse;
        });
    g.products->multiply(run.weights.w_uv_shape(), run.weights.w_uv(head),
                         {product.a, product.out, count});
  }
}

}  // namespace mla::prefill
