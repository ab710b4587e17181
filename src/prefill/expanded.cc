// The expanded form: one walk over the keys of a request, and for each key block and head
//
//   latents, once for the heads of the unit    C = pack(kv_c, k_pe)
//   panel                                      K = [C W_UK^T | k_pe]   V = C W_UV^T
//   every query block that sees the keys       S = q K^T, P = softmax(S), O += P V
//
// Panels live for one step. Context and new tokens are one row of keys, so what a merge of the two
// would give comes out of the running softmax.
#include <algorithm>

#include "prefill/elements.h"
#include "prefill/run.h"

namespace mla::prefill {
namespace {

class Walk {
 public:
  Walk(const RunContext& run, const Unit& unit, std::byte* memory)
      : run_(run),
        g_(run.geometry),
        tile_(run.tiles.expanded),
        unit_(unit),
        request_(run.state.requests[static_cast<std::size_t>(unit.target)]),
        blocks_(ceil_div(unit.end - unit.begin, tile_.block_q)) {
    Bump bump(memory);
    memory_ = carve_expanded(g_, run.tiles, blocks_ * (unit.head_end - unit.head_begin), &bump);
  }

  void run() {
    for (std::int64_t h = unit_.head_begin; h < unit_.head_end; ++h) load_queries(h);
    const std::int64_t keys = request_.context_tokens + unit_.end;
    for (std::int64_t first = 0; first < keys; first += tile_.block_k) {
      attend_keys(first, std::min(tile_.block_k, keys - first));
    }
    for (std::int64_t h = unit_.head_begin; h < unit_.head_end; ++h) write_outputs(h);
  }

 private:
  std::int64_t first_row(std::int64_t block) const { return unit_.begin + block * tile_.block_q; }
  std::int64_t row_count(std::int64_t block) const {
    return std::min(tile_.block_q, unit_.end - first_row(block));
  }
  std::int64_t place(std::int64_t head, std::int64_t block) const {
    return (head - unit_.head_begin) * blocks_ + block;
  }

  void load_queries(std::int64_t head) {
    const cpu::Shape shape = g_.expanded_shape();
    const attention::ConstRows& q = run_.args.q;
    for (std::int64_t b = 0; b < blocks_; ++b) {
      for (std::int64_t i = 0; i < row_count(b); ++i) {
        const std::int64_t token = request_.first_token + first_row(b) + i;
        memory_.query_rows[i] = at(q.data, g_.dtype, token * q.token_stride + head * q.head_stride);
      }
      g_.kernels->pack_queries(shape, memory_.query_rows, row_count(b),
                               memory_.queries(place(head, b)));
      g_.kernels->begin(shape, row_count(b), memory_.state(place(head, b)));
    }
  }

  // Row i of the request sees context_tokens + i + 1 keys.
  void attend_keys(std::int64_t first, std::int64_t count) {
    const std::int64_t blind = std::max<std::int64_t>(
        0, first - request_.context_tokens - unit_.begin);  // rows that see none of these keys
    gather_keys(run_, unit_.target, first, count, memory_.keys);
    const cpu::ProjectionShape projection = g_.projection();
    const bool finite = g_.kernels->pack_latents(projection, memory_.keys.latent, memory_.keys.rope,
                                                 count, memory_.latents);
    for (std::int64_t h = unit_.head_begin; h < unit_.head_end; ++h) {
      g_.kernels->project(projection, run_.weights.expanded(h), memory_.latents, count,
                          memory_.panel);
      cpu::Step step;
      step.panel = memory_.panel;
      step.keys = count;
      step.panel_finite = finite;
      for (std::int64_t b = blind / tile_.block_q; b < blocks_; ++b) {
        step.queries = memory_.queries(place(h, b));
        step.rows = row_count(b);
        step.visible = visible(b, first, count);
        g_.kernels->step(g_.expanded_shape(), g_.scale, step, memory_.state(place(h, b)),
                         memory_.scratch);
      }
    }
  }

  const std::int32_t* visible(std::int64_t block, std::int64_t first, std::int64_t count) {
    const std::int64_t seen = request_.context_tokens + first_row(block) + 1 - first;
    if (seen >= count) return nullptr;
    for (std::int64_t i = 0; i < row_count(block); ++i) {
      memory_.visible[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(seen + i, 0, count));
    }
    return memory_.visible;
  }

  void write_outputs(std::int64_t head) {
    const attention::Rows& out = run_.args.out;
    float* const lse = run_.args.lse;
    for (std::int64_t b = 0; b < blocks_; ++b) {
      for (std::int64_t i = 0; i < row_count(b); ++i) {
        const std::int64_t token = request_.first_token + first_row(b) + i;
        memory_.out_rows[i] =
            at(out.data, g_.out_dtype, token * out.token_stride + head * out.head_stride);
        if (lse != nullptr) memory_.lse_rows[i] = lse + head * run_.args.lse_head_stride + token;
      }
      g_.kernels->finish(g_.expanded_shape(), row_count(b), memory_.state(place(head, b)),
                         g_.out_dtype, memory_.out_rows,
                         lse != nullptr ? memory_.lse_rows : nullptr);
    }
  }

  const RunContext& run_;
  const Geometry& g_;
  const cpu::Blocking& tile_;
  const Unit& unit_;
  const RequestShape& request_;
  const std::int64_t blocks_;
  AttendMemory memory_;
};

}  // namespace

void attend_expanded(const RunContext& run, const Unit& unit, std::byte* memory) {
  Walk(run, unit, memory).run();
}

}  // namespace mla::prefill
