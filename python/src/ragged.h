// The arguments that attend() and reference() share: ragged q, k, v and their offsets.
#pragma once

#include <optional>

#include "mla/attention.h"
#include "tensor.h"

namespace mla::python {

struct Ragged {
  Tensor q, k, v;
  Integers cu_seqlens_q, cu_seqlens_k;
  attention::Args args;  // all but the outputs
};

// Fills `ragged` in place: its args point into it. scale: none is Dq^-0.5.
void read_ragged(nb::handle q, nb::handle k, nb::handle v, Ragged& ragged);
void read_offsets(nb::handle cu_seqlens_q, nb::handle cu_seqlens_k, Ragged& ragged);
float softmax_scale(const std::optional<double>& scale, std::int64_t qk_head_dim);

// [T,H,D] as the library's strided rows.
attention::ConstRows const_rows(const Tensor& tensor);
attention::Rows rows(const Tensor& tensor);
// How many threads: none is all of them.
attention::RunOptions run_options(const std::optional<int>& num_threads);
// The dims a selection asks for when only Dq and Dv are known.
MlaDims dims_of(const attention::Args& args);

}  // namespace mla::python
