#include "ragged.h"

#include <cmath>

namespace mla::python {

attention::ConstRows const_rows(const Tensor& tensor) {
  return {tensor.data, tensor.strides[0], tensor.strides[1], nullptr};
}

attention::Rows rows(const Tensor& tensor) {
  return {tensor.data, tensor.strides[0], tensor.strides[1], nullptr};
}

float softmax_scale(const std::optional<double>& scale, std::int64_t qk_head_dim) {
  return static_cast<float>(scale.has_value() ? *scale
                                              : 1.0 / std::sqrt(static_cast<double>(qk_head_dim)));
}

attention::RunOptions run_options(const std::optional<int>& num_threads) {
  if (num_threads.has_value() && *num_threads < 1) {
    bad_value("num_threads", "1 or more, or None", std::to_string(*num_threads));
  }
  return {nullptr, num_threads.value_or(0)};
}

MlaDims dims_of(const attention::Args& args) {
  constexpr std::int64_t kLargest = 1024;  // of one dimension of a selection
  const std::int64_t nope = args.qk_head_dim < kLargest ? args.qk_head_dim : kLargest;
  return {nope, args.qk_head_dim - nope, args.v_head_dim};
}

void read_ragged(nb::handle q, nb::handle k, nb::handle v, Ragged& ragged) {
  ragged.q = tensor(q, "q", 3, "(T, H, Dq)");
  ragged.k = tensor(k, "k", 3, "(N, H, Dq)");
  ragged.v = tensor(v, "v", 3, "(N, H, Dv)");
  attention::Args& args = ragged.args;
  args.dtype = args.out_dtype = ragged.q.float_type();
  check_same_dtype(ragged.k, ragged.q);
  check_same_dtype(ragged.v, ragged.q);
  args.total_q = ragged.q.shape[0];
  args.num_heads = ragged.q.shape[1];
  args.qk_head_dim = ragged.q.shape[2];
  args.total_k = ragged.k.shape[0];
  args.v_head_dim = ragged.v.shape[2];
  check_size(ragged.k, 1, args.num_heads, "the heads of q");
  check_size(ragged.k, 2, args.qk_head_dim, "the head dimension of q");
  check_size(ragged.v, 0, args.total_k, "the tokens of k");
  check_size(ragged.v, 1, args.num_heads, "the heads of q");
  args.q = const_rows(ragged.q);
  args.k = const_rows(ragged.k);
  args.v = const_rows(ragged.v);
}

void read_offsets(nb::handle cu_seqlens_q, nb::handle cu_seqlens_k, Ragged& ragged) {
  read_integers(cu_seqlens_q, "cu_seqlens_q", ragged.cu_seqlens_q);
  read_integers(cu_seqlens_k, "cu_seqlens_k", ragged.cu_seqlens_k);
  if (ragged.cu_seqlens_q.size < 1) bad_value("cu_seqlens_q", "R + 1 offsets", "none");
  if (ragged.cu_seqlens_k.size != ragged.cu_seqlens_q.size) {
    bad_value("cu_seqlens_k",
              std::to_string(ragged.cu_seqlens_q.size) + " offsets, as many as cu_seqlens_q",
              std::to_string(ragged.cu_seqlens_k.size));
  }
  ragged.args.num_requests = ragged.cu_seqlens_q.size - 1;
  ragged.args.cu_seqlens_q = ragged.cu_seqlens_q.values();
  ragged.args.cu_seqlens_k = ragged.cu_seqlens_k.values();
}

}  // namespace mla::python
