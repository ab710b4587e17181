// reference(): the same in double precision by plain loops, for tests.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "ragged.h"

namespace mla::python {
namespace {

constexpr const char* kDoc =
    R"(What attend() computes, in double precision by plain loops: the yardstick of tests.

Returns (out, lse), float64, [T,H,Dv] and [H,T].)";

nb::object reference(nb::handle q, Ragged& ragged) {
  attention::Args& args = ragged.args;
  const nb::object out_object =
      empty_like_kind(q, {args.total_q, args.num_heads, args.v_head_dim}, Element::kFloat64);
  const nb::object lse_object =
      empty_like_kind(q, {args.num_heads, args.total_q}, Element::kFloat64);
  const Tensor out = tensor(out_object, "out", Access::kWrite);
  const Tensor lse = tensor(lse_object, "lse", Access::kWrite);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status =
        attention::reference(args, static_cast<double*>(out.data), static_cast<double*>(lse.data));
  }
  check(status);
  return nb::make_tuple(as_kind_of(q, out_object), as_kind_of(q, lse_object));
}

}  // namespace

void bind_reference(nb::module_& module) {
  module.def(
      "reference",
      [](nb::any q, nb::any k, nb::any v, nb::any cu_seqlens_q, nb::any cu_seqlens_k,
         std::optional<double> scale, bool causal) -> nb::any {
        Ragged ragged;
        read_ragged(q, k, v, ragged);
        read_offsets(cu_seqlens_q, cu_seqlens_k, ragged);
        ragged.args.scale = softmax_scale(scale, ragged.args.qk_head_dim);
        ragged.args.causal = causal;
        return nb::borrow<nb::any>(reference(q, ragged));
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("cu_seqlens_q"), nb::arg("cu_seqlens_k"),
      nb::kw_only(), nb::arg("scale") = nb::none(), nb::arg("causal") = true, kDoc);
}

}  // namespace mla::python
