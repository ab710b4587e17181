// Properties of memory layout: every one gives the answer of the double reference although all
// memory between and around the rows holds NaN.
#include "properties.h"

namespace mla::conformance {
namespace {

void check_layout(Trial& trial, Layout layout) {
  for (DType dtype : trial.dtypes()) {
    for (bool causal : {true, false}) {
      BatchSpec spec = trial.spec(dtype);
      spec.layout = layout;
      spec.causal = causal;
      spec.heads = 3;
      spec.q_lengths = {33, 0, 70, 1};
      spec.k_lengths = {60, 4, 70, 2};
      trial.check(spec);
    }
  }
}

}  // namespace

void check_strided_v(Trial& trial) {
  check_layout(trial, Layout::kKvProjection);
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.model_spec(dtype);
    spec.layout = Layout::kKvProjection;
    spec.q_lengths = {130};
    spec.k_lengths = {130};
    trial.check(spec);
  }
}

void check_layouts(Trial& trial) {
  check_layout(trial, Layout::kTokenMajor);
  check_layout(trial, Layout::kHeadMajor);
  check_layout(trial, Layout::kGapped);
  check_layout(trial, Layout::kPermuted);
}

void check_dense_batch(Trial& trial) { check_layout(trial, Layout::kDense); }

void check_shared_heads(Trial& trial) {
  check_layout(trial, Layout::kSharedHeads);
  if (trial.dims_or({2, 1}).v <= trial.dims_or({2, 1}).qk) check_layout(trial, Layout::kLatent);
}

void check_lse_faces(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.spec(dtype);
    spec.heads = 3;
    spec.q_lengths = {20, 5, 3};
    spec.k_lengths = {30, 0, 1};
    for (std::int64_t gap : {0, 1, 7}) {
      spec.lse_gap = gap;
      trial.check(spec);
    }
    // Asking for lse or not does not change out.
    spec.lse_gap = 0;
    const Batch with(spec);
    spec.with_lse = false;
    const Batch without(spec);
    const auto full = trial.run(with);
    const auto bare = trial.run(without);
    if (!full || !bare) return;
    trial.same_bits(without, *full, *bare, "out with and without lse",
                    [](std::int64_t, std::int64_t) { return true; });
  }
}

void check_offset_width(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.spec(dtype);
    spec.q_lengths = {20, 5, 3};
    spec.k_lengths = {30, 5, 1};
    const Batch narrow(spec);
    spec.wide_offsets = true;
    const Batch wide(spec);
    const auto of_narrow = trial.run(narrow);
    const auto of_wide = trial.run(wide);
    if (!of_narrow || !of_wide) return;
    trial.compare(wide, *of_wide);
    trial.same_bits(narrow, *of_narrow, *of_wide, "int32 and int64 cu_seqlens",
                    [](std::int64_t, std::int64_t) { return true; });
  }
}

}  // namespace mla::conformance
