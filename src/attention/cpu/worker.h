// One worker of a call: takes units and items and walks query blocks over panels.
#pragma once

#include "attention/cpu/kernels.h"
#include "attention/cpu/schedule.h"
#include "attention/cpu/work.h"

namespace mla::attention::cpu {

// A worker's part of the call's memory. What begins with lane_ is read by others who help.
struct WorkerMemory {
  const void** k_rows = nullptr;   // [block_k]
  const void** v_rows = nullptr;   // [block_k]
  const void** q_rows = nullptr;   // [block_q]
  void** out_rows = nullptr;       // [block_q]
  float** lse_rows = nullptr;      // [block_q]
  std::int32_t* seen = nullptr;    // [block_q]
  std::byte* queries = nullptr;    // of the query blocks of an item
  std::byte* states = nullptr;     // of the same
  std::byte* scratch = nullptr;    // the kernels'
  std::byte* own_panel = nullptr;  // where the item's panels are not shared
  std::byte* lane_panels = nullptr;
  PanelState* lane_states = nullptr;
  float* lane_partials = nullptr;
  std::int64_t num_lane_states = 0;
};

// What all workers of a call read.
struct Call {
  const Kernels* kernels = nullptr;
  const Args* args = nullptr;
  Shape shape;
  Blocking blocking;
  const Work* works = nullptr;  // heaviest first
  std::int64_t num_works = 0;
  std::int64_t units_per_work = 1;  // unit u is head u % units_per_work of work u / units_per_work
  Units* units = nullptr;
  Lane* lanes = nullptr;  // one a worker
  int num_lanes = 0;
};

// Makes a lane of the memory, with nothing in it yet.
void open_lane(const WorkerMemory& memory, Lane* lane);

class Worker {
 public:
  Worker(const Call& call, const WorkerMemory& memory, Lane& own)
      : call_(call), memory_(memory), own_(own) {}
  void run();

 private:
  struct Panel {
    const void* data = nullptr;
    bool finite = true;
  };

  void compute_units();
  void open(std::int64_t unit);
  bool steal();
  void compute(Lane& lane, std::int64_t item);
  void walk(Lane& lane, std::int64_t first_panel, std::int64_t end_panel);
  void begin_block(std::int64_t block);
  void step(std::int64_t block, std::int64_t panel_index, const Panel& panel);
  Panel get_panel(Lane& lane, std::int64_t index);
  bool pack(std::int64_t index, std::byte* panel);
  void finish_block(std::int64_t block);
  void finish_partial(Lane& lane, std::int64_t item);
  void merge_partials(const Lane& lane);
  void locate_outputs(std::int64_t first_row, std::int64_t rows);
  std::int64_t rows_of(std::int64_t block) const;
  std::int64_t visible_to(std::int64_t row) const;

  const Call& call_;
  const WorkerMemory& memory_;
  Lane& own_;
  // The item at hand.
  const Work* work_ = nullptr;
  std::int64_t head_ = 0;         // the first of the unit
  std::int64_t first_block_ = 0;  // query blocks of the item
  std::int64_t end_block_ = 0;
};

}  // namespace mla::attention::cpu
