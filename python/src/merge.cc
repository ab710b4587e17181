// merge(): two partial results over disjoint sets of keys.
#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "ragged.h"

namespace mla::python {
namespace {

constexpr const char* kDoc =
    R"(Merges two partial results over disjoint sets of keys; returns (out, lse).

out_a, out_b [T,H,Dv]; lse_a, lse_b [H,T] float32, natural logarithm (+inf counts as -inf).
merged_tokens [T] bool or uint8: a row with 0 takes a as it is. out may be out_a or out_b.)";

struct Operands {
  Tensor out_a, lse_a, out_b, lse_b, merged;
  attention::MergeArgs args;
};

Tensor read_lse(nb::handle object, const char* argument, const attention::MergeArgs& args) {
  Tensor lse = tensor(object, argument, 2, "(H, T)");
  if (lse.element != Element::kFloat32) bad_type(argument, "float32", lse.dtype_name());
  check_size(lse, 0, args.num_heads, "the heads of out_a");
  check_size(lse, 1, args.num_tokens, "the tokens of out_a");
  return lse;
}

void read_merged(nb::handle object, Operands& operands) {
  if (object.is_none()) return;
  operands.merged = tensor(object, "merged_tokens", 1, "(T,)");
  if (operands.merged.element != Element::kBool && operands.merged.element != Element::kUInt8) {
    bad_type("merged_tokens", "bool or uint8", operands.merged.dtype_name());
  }
  check_size(operands.merged, 0, operands.args.num_tokens, "the tokens of out_a");
  operands.args.merged_tokens = static_cast<const std::uint8_t*>(operands.merged.data);
}

void read_operands(nb::handle out_a, nb::handle lse_a, nb::handle out_b, nb::handle lse_b,
                   Operands& operands) {
  attention::MergeArgs& args = operands.args;
  operands.out_a = tensor(out_a, "out_a", 3, "(T, H, Dv)");
  operands.out_b = tensor(out_b, "out_b", 3, "(T, H, Dv)");
  args.dtype = args.out_dtype = operands.out_a.float_type();
  check_same_dtype(operands.out_b, operands.out_a);
  args.num_tokens = operands.out_a.shape[0];
  args.num_heads = operands.out_a.shape[1];
  args.v_head_dim = operands.out_a.shape[2];
  for (int i = 0; i < 3; ++i) {
    check_size(operands.out_b, i, operands.out_a.shape[i], "the shape of out_a");
  }
  operands.lse_a = read_lse(lse_a, "lse_a", args);
  operands.lse_b = read_lse(lse_b, "lse_b", args);
  args.a = const_rows(operands.out_a);
  args.b = const_rows(operands.out_b);
  args.lse_a = static_cast<const float*>(operands.lse_a.data);
  args.lse_b = static_cast<const float*>(operands.lse_b.data);
  args.lse_a_head_stride = operands.lse_a.strides[0];
  args.lse_b_head_stride = operands.lse_b.strides[0];
}

nb::object merge(nb::handle out_a, Operands& operands, nb::handle given) {
  attention::MergeArgs& args = operands.args;
  const bool owned = given.is_none();
  const nb::object out_object =
      owned ? empty_like_kind(out_a, {args.num_tokens, args.num_heads, args.v_head_dim},
                              operands.out_a.element)
            : nb::borrow(given);
  const Tensor out = tensor(out_object, "out", 3, "(T, H, Dv)", Access::kWrite);
  for (int i = 0; i < 3; ++i) {
    check_size(out, i, operands.out_a.shape[i], "the shape of out_a");
  }
  args.out_dtype = out.float_type();
  args.out = rows(out);
  const nb::object lse_object =
      empty_like_kind(out_a, {args.num_heads, args.num_tokens}, Element::kFloat32);
  const Tensor lse = tensor(lse_object, "lse", Access::kWrite);
  args.lse = static_cast<float*>(lse.data);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = attention::merge(args);
  }
  check(status);
  return nb::make_tuple(owned ? as_kind_of(out_a, out_object) : out_object,
                        as_kind_of(out_a, lse_object));
}

}  // namespace

void bind_merge(nb::module_& module) {
  module.def(
      "merge",
      [](nb::any out_a, nb::any lse_a, nb::any out_b, nb::any lse_b, nb::any out,
         nb::any merged_tokens) -> nb::any {
        Operands operands;
        read_operands(out_a, lse_a, out_b, lse_b, operands);
        read_merged(merged_tokens, operands);
        return nb::borrow<nb::any>(merge(out_a, operands, out));
      },
      nb::arg("out_a"), nb::arg("lse_a"), nb::arg("out_b"), nb::arg("lse_b"), nb::kw_only(),
      nb::arg("out") = nb::none(), nb::arg("merged_tokens") = nb::none(), kDoc);
}

}  // namespace mla::python
