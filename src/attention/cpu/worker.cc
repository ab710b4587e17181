// The walk of an item: its query blocks over the panels they see, in ascending order of keys, so
// that the sums have the same bits whoever computes them.
#include "attention/cpu/worker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/half.h"

namespace mla::attention::cpu {
namespace {

template <class T>
void store(float value, void* row, std::int64_t element) {
  from_float(value, static_cast<T*>(row) + element);
}

void store(float value, DType dtype, void* row, std::int64_t element) {
  switch (dtype) {
    case DType::kFloat16:
      return store<Float16>(value, row, element);
    case DType::kBFloat16:
      return store<BFloat16>(value, row, element);
    default:
      return store<float>(value, row, element);
  }
}

}  // namespace

void open_lane(const WorkerMemory& memory, Lane* lane) {
  lane->panels = memory.lane_panels;
  lane->panel_states = memory.lane_states;
  lane->partials = memory.lane_partials;
  for (std::int64_t i = 0; i < memory.num_lane_states; ++i) {
    new (&memory.lane_states[i]) PanelState;
  }
}

void Worker::run() {
  ThreadState saved;
  if (call_.kernels->enter_thread != nullptr) call_.kernels->enter_thread(&saved);
  compute_units();
  if (call_.kernels->leave_thread != nullptr) call_.kernels->leave_thread(&saved);
}

void Worker::compute_units() {
  for (std::int64_t unit = call_.units->take(); unit >= 0; unit = call_.units->take()) {
    open(unit);
    for (std::int64_t item = own_.items.take_front(); item >= 0; item = own_.items.take_front()) {
      compute(own_, item);
    }
  }
  for (;;) {
    // Asked before looking: a unit opened after the look is seen by the next one.
    const bool all_opened = call_.units->all_opened();
    if (steal()) continue;
    if (all_opened) return;
    std::this_thread::yield();  // another worker has just taken a unit and is about to open it
  }
}

void Worker::open(std::int64_t unit) {
  const Work& work = call_.works[unit / call_.units_per_work];
  own_.unit = unit;
  own_.unfinished.store(work.items, std::memory_order_relaxed);
  if (work.sharing == Sharing::kShared) {
    for (std::int64_t p = 0; p < work.panels; ++p) own_.panel_states[p].reset();
  }
  own_.items.open(static_cast<std::uint32_t>(work.items));
  call_.units->opened();
}

// Computes an item of the lane that has most left; false when there is none.
bool Worker::steal() {
  Lane* fullest = nullptr;
  std::int64_t most = 0;
  for (int w = 0; w < call_.num_lanes; ++w) {
    const std::int64_t left = call_.lanes[w].items.left();
    if (left > most) {
      most = left;
      fullest = &call_.lanes[w];
    }
  }
  if (fullest == nullptr) return false;
  const std::int64_t item = fullest->items.take_back();
  if (item >= 0) compute(*fullest, item);
  return true;
}

void Worker::compute(Lane& lane, std::int64_t item) {
  work_ = &call_.works[lane.unit / call_.units_per_work];
  head_ = lane.unit % call_.units_per_work;
  if (work_->sharing == Sharing::kSplit) {
    first_block_ = 0;
    end_block_ = work_->blocks;
    walk(lane, item * work_->item_panels, std::min((item + 1) * work_->item_panels, work_->panels));
    finish_partial(lane, item);
    if (lane.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) merge_partials(lane);
    return;
  }
  first_block_ = item * work_->item_blocks;
  end_block_ = std::min(first_block_ + work_->item_blocks, work_->blocks);
  walk(lane, 0, work_->panels);
  for (std::int64_t b = first_block_; b < end_block_; ++b) finish_block(b);
}

std::int64_t Worker::rows_of(std::int64_t block) const {
  return std::min(call_.blocking.block_q, work_->rows - block * call_.blocking.block_q);
}

std::int64_t Worker::visible_to(std::int64_t row) const {
  return work_->request.visible(row / work_->fold);
}

void Worker::walk(Lane& lane, std::int64_t first_panel, std::int64_t end_panel) {
  for (std::int64_t b = first_block_; b < end_block_; ++b) begin_block(b);
  const std::int64_t block_k = call_.blocking.block_k;
  const std::int64_t last_row = (end_block_ - 1) * call_.blocking.block_q + rows_of(end_block_ - 1);
  const std::int64_t seen = visible_to(last_row - 1);
  for (std::int64_t p = first_panel; p < end_panel && p * block_k < seen; ++p) {
    const Panel panel = get_panel(lane, p);
    for (std::int64_t b = first_block_; b < end_block_; ++b) step(b, p, panel);
  }
}

void Worker::begin_block(std::int64_t block) {
  const Args& args = *call_.args;
  const Blocking& blocking = call_.blocking;
  const std::int64_t size = size_of(args.dtype);
  const char* const data = static_cast<const char*>(args.q.data) +
                           request_base(args.q, work_->index, work_->request.q_begin) * size;
  const std::int64_t rows = rows_of(block);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = block * blocking.block_q + i;
    const std::int64_t head = head_ + row % work_->fold;
    memory_.q_rows[i] =
        data + (row / work_->fold * args.q.token_stride + head * args.q.head_stride) * size;
  }
  const std::int64_t slot = block - first_block_;
  call_.kernels->pack_queries(call_.shape, memory_.q_rows, rows,
                              memory_.queries + slot * blocking.query_bytes);
  call_.kernels->begin(call_.shape, rows, memory_.states + slot * blocking.state_bytes);
}

void Worker::step(std::int64_t block, std::int64_t panel_index, const Panel& panel) {
  const Blocking& blocking = call_.blocking;
  const std::int64_t first_key = panel_index * blocking.block_k;
  const std::int64_t first_row = block * blocking.block_q;
  Step step;
  step.rows = rows_of(block);
  step.keys = std::min(blocking.block_k, visible_to(first_row + step.rows - 1) - first_key);
  if (step.keys <= 0) return;
  if (visible_to(first_row) - first_key < step.keys) {
    for (std::int64_t i = 0; i < step.rows; ++i) {
      const std::int64_t seen = visible_to(first_row + i) - first_key;
      memory_.seen[i] = static_cast<std::int32_t>(std::clamp(seen, std::int64_t{0}, step.keys));
    }
    step.visible = memory_.seen;
  }
  const std::int64_t slot = block - first_block_;
  step.queries = memory_.queries + slot * blocking.query_bytes;
  step.panel = panel.data;
  step.panel_finite = panel.finite;
  call_.kernels->step(call_.shape, call_.args->scale, step,
                      memory_.states + slot * blocking.state_bytes, memory_.scratch);
}

Worker::Panel Worker::get_panel(Lane& lane, std::int64_t index) {
  if (work_->sharing != Sharing::kShared) {
    return {memory_.own_panel, pack(index, memory_.own_panel)};
  }
  std::byte* const panel = lane.panels + index * call_.blocking.panel_bytes;
  return {panel, lane.panel_states[index].ready([&] { return pack(index, panel); })};
}

bool Worker::pack(std::int64_t index, std::byte* panel) {
  const Args& args = *call_.args;
  const std::int64_t size = size_of(args.dtype);
  const std::int64_t first_key = index * call_.blocking.block_k;
  const std::int64_t keys = std::min(call_.blocking.block_k, work_->visible - first_key);
  const std::int64_t k_start = request_base(args.k, work_->index, work_->request.k_begin) +
                               first_key * args.k.token_stride + head_ * args.k.head_stride;
  const std::int64_t v_start = request_base(args.v, work_->index, work_->request.k_begin) +
                               first_key * args.v.token_stride + head_ * args.v.head_stride;
  const char* const k = static_cast<const char*>(args.k.data) + k_start * size;
  const char* const v = static_cast<const char*>(args.v.data) + v_start * size;
  for (std::int64_t i = 0; i < keys; ++i) {
    memory_.k_rows[i] = k + i * args.k.token_stride * size;
    memory_.v_rows[i] = v + i * args.v.token_stride * size;
  }
  return call_.kernels->pack_panel(call_.shape, memory_.k_rows, memory_.v_rows, keys, panel);
}

// Fills out_rows and, where the caller wants an lse, lse_rows.
void Worker::locate_outputs(std::int64_t first_row, std::int64_t rows) {
  const Args& args = *call_.args;
  const std::int64_t size = size_of(args.out_dtype);
  const std::int64_t start = request_base(args.out, work_->index, work_->request.q_begin);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t token = (first_row + i) / work_->fold;
    const std::int64_t head = head_ + (first_row + i) % work_->fold;
    const std::int64_t at = start + token * args.out.token_stride + head * args.out.head_stride;
    memory_.out_rows[i] = static_cast<char*>(args.out.data) + at * size;
    if (args.lse != nullptr) {
      memory_.lse_rows[i] = args.lse + head * lse_stride(args) + work_->request.q_begin + token;
    }
  }
}

void Worker::finish_block(std::int64_t block) {
  const std::int64_t rows = rows_of(block);
  locate_outputs(block * call_.blocking.block_q, rows);
  call_.kernels->finish(call_.shape, rows,
                        memory_.states + (block - first_block_) * call_.blocking.state_bytes,
                        call_.args->out_dtype, memory_.out_rows,
                        call_.args->lse != nullptr ? memory_.lse_rows : nullptr);
}

// Partial results of a unit: out [items, rows, Dv], then lse [items, rows], then a row to merge in.
void Worker::finish_partial(Lane& lane, std::int64_t item) {
  const std::int64_t v_head_dim = call_.shape.v_head_dim;
  float* const out = lane.partials + item * work_->rows * v_head_dim;
  float* const lse = lane.partials + work_->items * work_->rows * v_head_dim + item * work_->rows;
  for (std::int64_t b = first_block_; b < end_block_; ++b) {
    const std::int64_t rows = rows_of(b);
    const std::int64_t first_row = b * call_.blocking.block_q;
    for (std::int64_t i = 0; i < rows; ++i) {
      memory_.out_rows[i] = out + (first_row + i) * v_head_dim;
      memory_.lse_rows[i] = lse + first_row + i;
    }
    call_.kernels->finish(call_.shape, rows,
                          memory_.states + (b - first_block_) * call_.blocking.state_bytes,
                          DType::kFloat32, memory_.out_rows, memory_.lse_rows);
  }
}

// In the order of keys, whoever was last: out = sum(w_i out_i) / sum(w_i), w_i = exp(lse_i - max).
void Worker::merge_partials(const Lane& lane) {
  const std::int64_t v_head_dim = call_.shape.v_head_dim;
  const float* const all_lse = lane.partials + work_->items * work_->rows * v_head_dim;
  for (std::int64_t row = 0; row < work_->rows; ++row) {
    locate_outputs(row, 1);
    constexpr float kEmpty = -std::numeric_limits<float>::infinity();
    float max = kEmpty;
    for (std::int64_t i = 0; i < work_->items; ++i) {
      max = std::max(max, all_lse[i * work_->rows + row]);
    }
    float sum = 0;
    float* const merged = lane.partials + work_->items * work_->rows * (v_head_dim + 1);
    std::fill_n(merged, v_head_dim, 0.0f);
    for (std::int64_t i = 0; i < work_->items; ++i) {
      const float lse = all_lse[i * work_->rows + row];
      if (lse == kEmpty) continue;
      const float weight = std::exp(lse - max);
      const float* const out = lane.partials + (i * work_->rows + row) * v_head_dim;
      sum += weight;
      for (std::int64_t d = 0; d < v_head_dim; ++d) merged[d] += weight * out[d];
    }
    const float inverse = sum == 0 ? 0 : 1 / sum;
    for (std::int64_t d = 0; d < v_head_dim; ++d) {
      store(merged[d] * inverse, call_.args->out_dtype, memory_.out_rows[0], d);
    }
    if (call_.args->lse != nullptr) {
      *memory_.lse_rows[0] = sum == 0 ? kEmpty : max + std::log(sum);
    }
  }
}

}  // namespace mla::attention::cpu
