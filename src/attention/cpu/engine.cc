// A call in order: plan every request, size and allocate the scratch memory, let workers walk the
// units. All memory of a call is one allocation, so a call that has none fails before it writes.
#include "attention/cpu/engine.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "attention/cpu/worker.h"

namespace mla::attention::cpu {
namespace {

constexpr std::int64_t kAlign = 64;
// Multiply-adds that are worth waking a further worker: some 50 us of one AVX2 core.
constexpr double kWorkerCost = 2e6;

// Adds up what is needed; the second pass hands the pieces out.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    std::int64_t bytes = 0;
    std::int64_t end = 0;
    if (__builtin_mul_overflow(count, static_cast<std::int64_t>(sizeof(T)), &bytes) ||
        __builtin_add_overflow(bytes, kAlign - 1, &bytes) ||
        __builtin_add_overflow(size_, bytes & -kAlign, &end)) {
      overflow_ = true;
      return nullptr;
    }
    std::byte* at = base_ == nullptr ? nullptr : base_ + size_;
    size_ = end;
    return reinterpret_cast<T*>(at);
  }
  std::int64_t size() const { return size_; }
  bool overflow() const { return overflow_; }

 private:
  std::byte* base_;
  std::int64_t size_ = 0;
  bool overflow_ = false;
};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kAlign}); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory allocate(std::int64_t bytes) {
  return Memory(static_cast<std::byte*>(
      ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{kAlign}, std::nothrow)));
}

Error out_of_memory(const Arena& arena) {
  const std::string size = arena.overflow() ? "more bytes than can be addressed"
                                            : std::to_string(arena.size()) + " bytes";
  return {ErrorCode::kOutOfMemory, "", "attention needs " + size + " of scratch memory, got none"};
}

// The most that any unit of the call needs of each kind of memory.
struct Needs {
  std::int64_t shared_panels = 0;
  std::int64_t item_blocks = 1;
  std::int64_t partial_floats = 0;
  bool own_panel = false;
  std::int64_t items = 0;
  double cost = 0;
};

Needs sum_needs(const Call& call) {
  Needs needs;
  const double dims = static_cast<double>(call.shape.qk_head_dim + call.shape.v_head_dim);
  for (std::int64_t i = 0; i < call.num_works; ++i) {
    const Work& work = call.works[i];
    needs.item_blocks = std::max(needs.item_blocks, work.item_blocks);
    if (work.sharing == Sharing::kShared) {
      needs.shared_panels = std::max(needs.shared_panels, work.panels);
    } else {
      needs.own_panel = true;
    }
    if (work.sharing == Sharing::kSplit) {
      needs.partial_floats = std::max(needs.partial_floats,
                                      (work.items * work.rows + 1) * (call.shape.v_head_dim + 1));
    }
    needs.items += work.items * call.units_per_work;
    needs.cost += dims * static_cast<double>(work.pairs + work.rows + work.visible) *
                  static_cast<double>(call.units_per_work);
  }
  return needs;
}

int count_workers(const Needs& needs, int offered) {
  const double useful = std::min(needs.cost / kWorkerCost + 1, static_cast<double>(needs.items));
  return useful < offered ? std::max(1, static_cast<int>(useful)) : std::max(1, offered);
}

// Lays the workers' memory out; with a null arena only its size matters.
void take_worker_memory(Arena& arena, const Call& call, const Needs& needs, WorkerMemory* memory) {
  const Blocking& blocking = call.blocking;
  WorkerMemory taken;
  taken.k_rows = arena.take<const void*>(blocking.block_k);
  taken.v_rows = arena.take<const void*>(blocking.block_k);
  taken.q_rows = arena.take<const void*>(blocking.block_q);
  taken.out_rows = arena.take<void*>(blocking.block_q);
  taken.lse_rows = arena.take<float*>(blocking.block_q);
  taken.seen = arena.take<std::int32_t>(blocking.block_q);
  taken.queries = arena.take<std::byte>(needs.item_blocks * blocking.query_bytes);
  taken.states = arena.take<std::byte>(needs.item_blocks * blocking.state_bytes);
  taken.scratch = arena.take<std::byte>(blocking.scratch_bytes);
  taken.own_panel = arena.take<std::byte>(needs.own_panel ? blocking.panel_bytes : 0);
  taken.lane_panels = arena.take<std::byte>(needs.shared_panels * blocking.panel_bytes);
  taken.lane_states = arena.take<PanelState>(needs.shared_panels);
  taken.lane_partials = arena.take<float>(needs.partial_floats);
  taken.num_lane_states = needs.shared_panels;
  if (memory != nullptr) *memory = taken;
}

void plan_requests(Call& call, int workers, Work* works) {
  for (std::int64_t r = 0; r < call.args->num_requests; ++r) {
    const Work work = plan_request(*call.args, call.blocking, r, workers);
    if (work.rows > 0) works[call.num_works++] = work;
  }
  std::sort(works, works + call.num_works, [](const Work& a, const Work& b) {
    return a.pairs != b.pairs ? a.pairs > b.pairs : a.index < b.index;
  });
  call.works = works;
}

}  // namespace

Status attend(const Kernels& kernels, const Args& args, const RunOptions& options) {
  if (args.num_requests == 0 || args.total_q == 0) return {};
  Call call;
  call.kernels = &kernels;
  call.args = &args;
  call.shape = {args.dtype, args.qk_head_dim, args.v_head_dim};
  call.blocking = kernels.blocking(call.shape);
  call.units_per_work = folds_heads(args) ? 1 : args.num_heads;

  Arena plan_arena(nullptr);
  plan_arena.take<Work>(args.num_requests);
  const Memory plan_memory = plan_arena.overflow() ? nullptr : allocate(plan_arena.size());
  if (plan_memory == nullptr) return out_of_memory(plan_arena);
  Executor& executor = options.executor != nullptr ? *options.executor : default_executor();
  const int offered = options.num_threads > 0 ? options.num_threads : executor.concurrency();
  plan_requests(call, offered, reinterpret_cast<Work*>(plan_memory.get()));

  const Needs needs = sum_needs(call);
  const int workers = count_workers(needs, offered);

  Arena size(nullptr);
  size.take<Lane>(workers);
  size.take<WorkerMemory>(workers);
  for (int w = 0; w < workers; ++w) take_worker_memory(size, call, needs, nullptr);
  const Memory memory = size.overflow() ? nullptr : allocate(size.size());
  if (memory == nullptr) return out_of_memory(size);

  Arena arena(memory.get());
  call.num_lanes = workers;
  call.lanes = arena.take<Lane>(workers);
  WorkerMemory* const memories = arena.take<WorkerMemory>(workers);
  for (int w = 0; w < workers; ++w) {
    take_worker_memory(arena, call, needs, &memories[w]);
    open_lane(memories[w], new (&call.lanes[w]) Lane);
  }
  Units units(call.num_works * call.units_per_work);
  call.units = &units;
  executor.for_each_worker(workers, [&](int w) { Worker(call, memories[w], call.lanes[w]).run(); });
  return {};
}

}  // namespace mla::attention::cpu
