// attend(): ragged attention.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "choice.h"
#include "ragged.h"

namespace mla::python {
namespace {

constexpr const char* kDoc =
    R"(Ragged attention: softmax(scale * q k^T) v for each request and head.

q [T,H,Dq], k [N,H,Dq], v [N,H,Dv]: float32, float16 or bfloat16, read in place whatever their
strides (last dimension contiguous). cu_seqlens_q, cu_seqlens_k [R+1]: int32, int64, or a list.
scale None: Dq**-0.5. causal: query i of m sees key j of n where j <= i + n - m. out: [T,H,Dv] of
the inputs' dtype or float32, written in place. backend: "CPU", "CPU:avx2", ..., None: selected.
Returns out, or (out, lse) with lse [H,T] float32, natural logarithm; a row that sees no key gets
out 0 and lse -inf. The GIL is released.)";

struct Options {
  std::optional<double> scale;
  bool causal = true;
  bool return_lse = false;
  nb::handle out;
  std::optional<std::string> backend;
  std::optional<int> num_threads;
};

// The caller's out, or a new one; args.out set.
nb::object prepare_out(nb::handle q, const Options& options, Ragged& ragged, Tensor& out) {
  attention::Args& args = ragged.args;
  const bool given = !options.out.is_none();
  nb::object object =
      given ? nb::borrow(options.out)
            : empty_like_kind(q, {args.total_q, args.num_heads, args.v_head_dim}, ragged.q.element);
  out = tensor(object, "out", 3, "(T, H, Dv)", Access::kWrite);
  if (given) {
    check_size(out, 0, args.total_q, "the tokens of q");
    check_size(out, 1, args.num_heads, "the heads of q");
    check_size(out, 2, args.v_head_dim, "the head dimension of v");
    args.out_dtype = out.float_type();
    if (args.out_dtype != args.dtype && args.out_dtype != DType::kFloat32) {
      bad_type("out", ragged.q.dtype_name() + " (the dtype of q) or float32", out.dtype_name());
    }
  }
  args.out = rows(out);
  return object;
}

nb::object attend(nb::handle q, Ragged& ragged, const Options& options) {
  attention::Args& args = ragged.args;
  args.scale = softmax_scale(options.scale, args.qk_head_dim);
  args.causal = options.causal;
  const attention::RunOptions run = run_options(options.num_threads);
  Tensor out;
  const nb::object out_object = prepare_out(q, options, ragged, out);
  nb::object lse_object;
  Tensor lse;
  if (options.return_lse) {
    lse_object = empty_like_kind(q, {args.num_heads, args.total_q}, Element::kFloat32);
    lse = tensor(lse_object, "lse", Access::kWrite);
    args.lse = static_cast<float*>(lse.data);
  }
  check(attention::validate(args));
  const std::shared_ptr<const attention::Implementation> implementation =
      choose(args.dtype, dims_of(args), options.backend.value_or("")).implementation;
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = attention::attend(*implementation, args, run);
  }
  check(status);
  const nb::object result = options.out.is_none() ? as_kind_of(q, out_object) : out_object;
  if (!options.return_lse) return result;
  return nb::make_tuple(result, as_kind_of(q, lse_object));
}

}  // namespace

void bind_attend(nb::module_& module) {
  module.def(
      "attend",
      [](nb::any q, nb::any k, nb::any v, nb::any cu_seqlens_q, nb::any cu_seqlens_k,
         std::optional<double> scale, bool causal, bool return_lse, nb::any out,
         std::optional<std::string> backend, std::optional<int> num_threads) -> nb::any {
        Ragged ragged;
        read_ragged(q, k, v, ragged);
        read_offsets(cu_seqlens_q, cu_seqlens_k, ragged);
        return nb::borrow<nb::any>(
            attend(q, ragged, {scale, causal, return_lse, out, std::move(backend), num_threads}));
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("cu_seqlens_q"), nb::arg("cu_seqlens_k"),
      nb::kw_only(), nb::arg("scale") = nb::none(), nb::arg("causal") = true,
      nb::arg("return_lse") = false, nb::arg("out") = nb::none(), nb::arg("backend") = nb::none(),
      nb::arg("num_threads") = nb::none(), kDoc);
}

}  // namespace mla::python
