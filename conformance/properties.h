// The properties, by the file that checks them; suite.cc lists them in order.
#pragma once

#include "trial.h"

namespace mla::conformance {

// values.cc
void check_dims(Trial& trial);
void check_ragged(Trial& trial);
void check_block_edges(Trial& trial);
void check_long_context(Trial& trial);
void check_causal_alignment(Trial& trial);
void check_causal_offsets(Trial& trial);
void check_all_keys(Trial& trial);
void check_empty(Trial& trial);
void check_float32_out(Trial& trial);
void check_random(Trial& trial);
// layouts.cc
void check_strided_v(Trial& trial);
void check_layouts(Trial& trial);
void check_dense_batch(Trial& trial);
void check_shared_heads(Trial& trial);
void check_lse_faces(Trial& trial);
void check_offset_width(Trial& trial);
// isolation.cc
void check_masked_nan(Trial& trial);
void check_query_nan(Trial& trial);
void check_request_nan(Trial& trial);
// bits.cc
void check_threads(Trial& trial);
void check_executors(Trial& trial);
void check_repeat(Trial& trial);
void check_batch_invariance(Trial& trial);
// scores.cc
void check_large_scores(Trial& trial);
void check_equal_scores(Trial& trial);
void check_dominant_key(Trial& trial);
void check_scales(Trial& trial);
void check_huge_scales(Trial& trial);
void check_wide_heads(Trial& trial);
void check_rounding_model(Trial& trial);
// entry.cc
void check_bad_arguments(Trial& trial);
void check_merge_chunks(Trial& trial);
// pages.cc
void check_outside_memory(Trial& trial);

}  // namespace mla::conformance
