// PrefillOperator: one layer's MLA attention from latents, over a paged cache.
#include "mla/prefill.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "choice.h"
#include "ragged.h"

namespace mla::python {
namespace {

using prefill::Operator;

constexpr const char* kDoc =
    R"(One layer's MLA attention: queries and new latents in, attention out, in a byte budget.

w_kv_b: kv_b_proj's weight [H*(nope+Dv), L]; or w_uk [H,nope,L] and w_uv [H,Dv,L]. Packed here; the
tensors are not kept. dims: (nope, rope, Dv). dtype: of q, kv_c and k_pe. cache_dtype: of the cache,
None: dtype. scale None: (nope+rope)**-0.5. form: "auto", "expanded" or "absorbed".)";
constexpr const char* kPlanDoc =
    R"(How a step will run; good for every layer. cu_seqlens_q [R+1], context_lens [R] (tokens
already in the cache) or None, block_table [R,max_blocks] int32 or None.)";
constexpr const char* kRunDoc =
    R"(Appends the new latents to the cache, then attends to context and new tokens; returns out
[T,H,Dv], or (out, lse).

q [T,H,Dq] and k_pe [T,rope] with rope applied, kv_c [T,L] normalised. cache
[blocks,block_size,L+rope] (kv_c first) or None where no request has context; slot_mapping [T] int64
(negative: not written) or None: nothing is written. out: dtype or float32, written in place.)";

// The plan with what it looks at.
struct HeldPlan {
  prefill::Plan plan;
  nb::object block_table;
  std::int64_t total_tokens = 0;
};

struct HeldOperator {
  Operator op;
};

void read_w_kv_b(nb::handle object, const prefill::OperatorConfig& config, Tensor& tensor_out,
                 prefill::Weights& weights) {
  tensor_out = tensor(object, "w_kv_b", 2, "(H*(nope+Dv), L)");
  const MlaDims& dims = config.dims;
  check_size(tensor_out, 0, config.num_heads * (dims.qk_nope_head_dim + dims.v_head_dim),
             "num_heads * (nope + Dv)");
  check_size(tensor_out, 1, config.kv_lora_rank, "kv_lora_rank");
  weights.dtype = tensor_out.float_type();
  weights.kv_b_proj = tensor_out.data;
  weights.kv_b_proj_stride = tensor_out.strides[0];
}

void read_split(nb::handle w_uk, nb::handle w_uv, const prefill::OperatorConfig& config,
                std::pair<Tensor, Tensor>& tensors, prefill::Weights& weights) {
  auto& [uk, uv] = tensors;
  uk = tensor(w_uk, "w_uk", 3, "(H, nope, L)");
  uv = tensor(w_uv, "w_uv", 3, "(H, Dv, L)");
  check_same_dtype(uv, uk);
  check_size(uk, 0, config.num_heads, "num_heads");
  check_size(uk, 1, config.dims.qk_nope_head_dim, "nope");
  check_size(uk, 2, config.kv_lora_rank, "kv_lora_rank");
  check_size(uv, 0, config.num_heads, "num_heads");
  check_size(uv, 1, config.dims.v_head_dim, "Dv");
  check_size(uv, 2, config.kv_lora_rank, "kv_lora_rank");
  weights.dtype = uk.float_type();
  weights.w_uk = uk.data;
  weights.w_uk_head_stride = uk.strides[0];
  weights.w_uk_row_stride = uk.strides[1];
  weights.w_uv = uv.data;
  weights.w_uv_head_stride = uv.strides[0];
  weights.w_uv_row_stride = uv.strides[1];
}

HeldOperator make_operator(const prefill::OperatorConfig& config, nb::handle w_kv_b,
                           nb::handle w_uk, nb::handle w_uv) {
  const bool split = !w_uk.is_none() && !w_uv.is_none();
  const bool either = !w_uk.is_none() || !w_uv.is_none();
  if (w_kv_b.is_none() ? !split : either) {
    bad_value("w_kv_b", "w_kv_b alone, or w_uk and w_uv", w_kv_b.is_none() ? "too few" : "both");
  }
  prefill::Weights weights;
  Tensor whole;
  std::pair<Tensor, Tensor> halves;
  if (split) {
    read_split(w_uk, w_uv, config, halves, weights);
  } else {
    read_w_kv_b(w_kv_b, config, whole, weights);
  }
  const auto implementation = choose(config.dtype, config.dims, config.backend).implementation;
  std::optional<Result<Operator>> made;
  {
    const nb::gil_scoped_release unlocked;
    made.emplace(Operator::create(config, weights, implementation));
  }
  return {check(std::move(*made))};
}

HeldPlan make_plan(const HeldOperator& self, nb::handle cu_seqlens_q, nb::handle context_lens,
                   nb::handle block_table, const attention::RunOptions& options) {
  Integers cu, context;
  read_integers(cu_seqlens_q, "cu_seqlens_q", cu);
  if (cu.size < 1) bad_value("cu_seqlens_q", "R + 1 offsets", "none");
  prefill::Batch batch;
  batch.num_requests = cu.size - 1;
  batch.cu_seqlens_q = cu.values();
  if (!context_lens.is_none()) {
    read_integers(context_lens, "context_lens", context);
    if (context.size != batch.num_requests) {
      bad_value("context_lens", std::to_string(batch.num_requests) + " lengths, one per request",
                std::to_string(context.size));
    }
    batch.context_lens = context.values();
  }
  HeldPlan held;
  if (!block_table.is_none()) {
    const Tensor table = tensor(block_table, "block_table", 2, "(R, max_blocks)");
    if (table.element != Element::kInt32) bad_type("block_table", "int32", table.dtype_name());
    check_size(table, 0, batch.num_requests, "the requests of cu_seqlens_q");
    batch.block_table = {static_cast<const std::int32_t*>(table.data), table.shape[1],
                         table.strides[0]};
    held.block_table = nb::borrow(block_table);
  }
  held.plan = check(self.op.plan(batch, options));
  held.total_tokens = held.plan.total_tokens;
  return held;
}

struct RunTensors {
  Tensor q, kv_c, k_pe, cache, slots, out, lse;
  prefill::RunArgs args;
};

void check_float(const Tensor& tensor, DType wanted) {
  if (tensor.element != element_of(wanted)) {
    bad_type(tensor.argument, std::string(name(wanted)), tensor.dtype_name());
  }
}

void read_step(const HeldOperator& self, const HeldPlan& plan, nb::handle q, nb::handle kv_c,
               nb::handle k_pe, RunTensors& run) {
  const prefill::OperatorConfig& config = self.op.config();
  run.q = tensor(q, "q", 3, "(T, H, Dq)");
  run.kv_c = tensor(kv_c, "kv_c", 2, "(T, L)");
  run.k_pe = tensor(k_pe, "k_pe", 2, "(T, rope)");
  for (const Tensor* each : {&run.q, &run.kv_c, &run.k_pe}) {
    check_float(*each, config.dtype);
    check_size(*each, 0, plan.total_tokens, "the plan's tokens");
  }
  check_size(run.q, 1, config.num_heads, "num_heads");
  check_size(run.q, 2, config.dims.qk_head_dim(), "nope + rope");
  check_size(run.kv_c, 1, config.kv_lora_rank, "kv_lora_rank");
  check_size(run.k_pe, 1, config.dims.qk_rope_head_dim, "rope");
  run.args.q = const_rows(run.q);
  run.args.kv_c = run.kv_c.data;
  run.args.kv_c_stride = run.kv_c.strides[0];
  run.args.k_pe = run.k_pe.data;
  run.args.k_pe_stride = run.k_pe.strides[0];
}

void read_cache(const HeldOperator& self, const HeldPlan& plan, nb::handle cache,
                nb::handle slot_mapping, RunTensors& run) {
  const prefill::OperatorConfig& config = self.op.config();
  if (!cache.is_none()) {
    const Access access = slot_mapping.is_none() ? Access::kRead : Access::kWrite;
    run.cache = tensor(cache, "cache", 3, "(blocks, block_size, L+rope)", access);
    check_float(run.cache, config.cache_dtype.value_or(config.dtype));
    const std::int64_t width = config.kv_lora_rank + config.dims.qk_rope_head_dim;
    check_size(run.cache, 2, width, "kv_lora_rank + rope");
    if (run.cache.shape[1] > 1 && run.cache.strides[1] != width) {
      bad_value("cache", "rows that follow each other in a block",
                "row stride " + std::to_string(run.cache.strides[1]));
    }
    run.args.cache = {run.cache.data, run.cache.shape[0], run.cache.shape[1], run.cache.strides[0]};
  }
  if (!slot_mapping.is_none()) {
    run.slots = tensor(slot_mapping, "slot_mapping", 1, "(T,)");
    if (run.slots.element != Element::kInt64) {
      bad_type("slot_mapping", "int64", run.slots.dtype_name());
    }
    check_size(run.slots, 0, plan.total_tokens, "the plan's tokens");
    run.args.slot_mapping = static_cast<const std::int64_t*>(run.slots.data);
  }
}

nb::object run(const HeldOperator& self, const HeldPlan& plan, nb::handle q, nb::handle given,
               bool return_lse, RunTensors& run) {
  const prefill::OperatorConfig& config = self.op.config();
  const std::int64_t shape[] = {plan.total_tokens, config.num_heads, config.dims.v_head_dim};
  const DType out_dtype = config.out_dtype.value_or(config.dtype);
  const nb::object out_object =
      given.is_none() ? empty_like_kind(q, {shape[0], shape[1], shape[2]}, element_of(out_dtype))
                      : nb::borrow(given);
  run.out = tensor(out_object, "out", 3, "(T, H, Dv)", Access::kWrite);
  for (int i = 0; i < 3; ++i) check_size(run.out, i, shape[i], "(T, H, Dv)");
  check_float(run.out, out_dtype);
  run.args.out = rows(run.out);
  nb::object lse_object;
  if (return_lse) {
    lse_object = empty_like_kind(q, {shape[1], shape[0]}, Element::kFloat32);
    run.lse = tensor(lse_object, "lse", Access::kWrite);
    run.args.lse = static_cast<float*>(run.lse.data);
  }
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = self.op.run(plan.plan, run.args);
  }
  check(status);
  const nb::object out = given.is_none() ? as_kind_of(q, out_object) : out_object;
  return return_lse ? nb::object(nb::make_tuple(out, as_kind_of(q, lse_object))) : out;
}

using DimsTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

prefill::Form form_of(const std::string& text) {
  const std::optional<prefill::Form> form = prefill::parse_form(text);
  if (!form.has_value()) bad_value("form", "'auto', 'expanded' or 'absorbed'", "'" + text + "'");
  return *form;
}

void bind_plan(nb::module_& module) {
  nb::class_<HeldPlan>(module, "Plan", "How a step will run: a value, good for every layer.")
      .def_prop_ro("total_tokens", [](const HeldPlan& self) { return self.total_tokens; })
      .def_prop_ro("scratch_bytes", [](const HeldPlan& self) { return self.plan.scratch_bytes; })
      .def_prop_ro("workers", [](const HeldPlan& self) { return self.plan.workers; })
      .def_prop_ro("kernels", [](const HeldPlan& self) { return self.plan.kernels; })
      .def_prop_ro(
          "forms",
          [](const HeldPlan& self) {
            std::vector<std::string> forms;
            for (const auto& request : self.plan.requests) {
              forms.emplace_back(prefill::name(request.form));
            }
            return forms;
          },
          "The form of each request.")
      .def("to_json", [](const HeldPlan& self) { return self.plan.to_json(); })
      .def("__str__", [](const HeldPlan& self) { return self.plan.to_string(); })
      .def("__repr__", [](const HeldPlan& self) { return self.plan.to_string(); });
}

void bind_run(nb::class_<HeldOperator>& operator_class) {
  operator_class
      .def(
          "plan",
          [](const HeldOperator& self, nb::any cu_seqlens_q, nb::any context_lens,
             nb::any block_table, std::optional<int> num_threads) {
            return make_plan(self, cu_seqlens_q, context_lens, block_table,
                             run_options(num_threads));
          },
          nb::arg("cu_seqlens_q"), nb::arg("context_lens") = nb::none(),
          nb::arg("block_table") = nb::none(), nb::kw_only(), nb::arg("num_threads") = nb::none(),
          kPlanDoc)
      .def(
          "run",
          [](const HeldOperator& self, const HeldPlan& plan, nb::any q, nb::any kv_c, nb::any k_pe,
             nb::any cache, nb::any slot_mapping, nb::any out, bool return_lse) -> nb::any {
            RunTensors tensors;
            read_step(self, plan, q, kv_c, k_pe, tensors);
            read_cache(self, plan, cache, slot_mapping, tensors);
            return nb::borrow<nb::any>(run(self, plan, q, out, return_lse, tensors));
          },
          nb::arg("plan"), nb::arg("q"), nb::arg("kv_c"), nb::arg("k_pe"),
          nb::arg("cache") = nb::none(), nb::arg("slot_mapping") = nb::none(),
          nb::arg("out") = nb::none(), nb::kw_only(), nb::arg("return_lse") = false, kRunDoc);
}

}  // namespace

void bind_prefill(nb::module_& module) {
  bind_plan(module);
  nb::class_<HeldOperator> operator_class(module, "PrefillOperator", kDoc);
  operator_class.def(
      "__init__",
      [](HeldOperator* self, nb::any w_kv_b, nb::any w_uk, nb::any w_uv, std::int64_t num_heads,
         DimsTuple dims, std::int64_t kv_lora_rank, nb::any dtype, std::optional<double> scale,
         std::optional<std::string> backend, const std::string& form, std::int64_t scratch_bytes,
         nb::any cache_dtype, nb::any out_dtype) {
        prefill::OperatorConfig config;
        config.num_heads = num_heads;
        config.dims = {std::get<0>(dims), std::get<1>(dims), std::get<2>(dims)};
        config.kv_lora_rank = kv_lora_rank;
        config.dtype = dtype_of(dtype, "dtype");
        if (!cache_dtype.is_none()) config.cache_dtype = dtype_of(cache_dtype, "cache_dtype");
        if (!out_dtype.is_none()) config.out_dtype = dtype_of(out_dtype, "out_dtype");
        config.scale = softmax_scale(scale, config.dims.qk_head_dim());
        config.form = form_of(form);
        config.scratch_bytes = scratch_bytes;
        config.backend = backend.value_or("");
        new (self) HeldOperator(make_operator(config, w_kv_b, w_uk, w_uv));
      },
      nb::arg("w_kv_b") = nb::none(), nb::kw_only(), nb::arg("w_uk") = nb::none(),
      nb::arg("w_uv") = nb::none(), nb::arg("num_heads"), nb::arg("dims"), nb::arg("kv_lora_rank"),
      nb::arg("dtype") = "bfloat16", nb::arg("scale") = nb::none(), nb::arg("backend") = nb::none(),
      nb::arg("form") = "auto", nb::arg("scratch_bytes") = std::int64_t{256} << 20,
      nb::arg("cache_dtype") = nb::none(), nb::arg("out_dtype") = nb::none());
  operator_class.def_prop_ro("weight_bytes",
                             [](const HeldOperator& self) { return self.op.weight_bytes(); });
  operator_class.def_prop_ro("scale",
                             [](const HeldOperator& self) { return self.op.config().scale; });
  bind_run(operator_class);
}

}  // namespace mla::python
