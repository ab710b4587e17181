// attend_dense(): dense batches [B,H,S,D] with padding as a range of keys per request, without a
// copy of any tensor.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "choice.h"
#include "ragged.h"

namespace mla::python {
namespace {

constexpr const char* kDoc =
    R"(Attention on dense tensors: q [B,H,S,Dq], k [B,H,N,Dq], v [B,H,N,Dv], read in place.

Request b sees the keys key_starts[b] .. key_starts[b] + key_lengths[b] - 1 of its N (defaults: 0,
and all that follow). causal: query i stands at key query_offset + i and sees none after it;
query_offset is an int or one per request, None: N - S. Returns out [B,H,S,Dv] (in memory
[B,S,H,Dv]), or (out, lse) with lse [B,H,S]; a row that sees no key gets out 0 and lse -inf.
out: written in place. scale, backend and num_threads as in attend().)";

struct Options {
  std::optional<double> scale;
  bool causal = true;
  bool return_lse = false;
  nb::handle out;
  std::optional<std::string> backend;
  std::optional<int> num_threads;
};

// Where each request's rows and keys are, [B] or [B+1].
struct Places {
  std::vector<std::int64_t> cu_seqlens_q, cu_seqlens_k;
  std::vector<std::int64_t> q, k, v, out;
  std::vector<std::int64_t> causal;
};

struct Dense {
  Tensor q, k, v;
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0;
  Places places;
  attention::Args args;
};

// One per request, or one for all; `otherwise` where None.
std::vector<std::int64_t> per_request(nb::handle object, const char* argument, std::int64_t batch,
                                      std::int64_t otherwise) {
  if (object.is_none())
    return std::vector<std::int64_t>(static_cast<std::size_t>(batch), otherwise);
  if (PyLong_Check(object.ptr())) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(batch),
                                     nb::cast<std::int64_t>(object));
  }
  Integers integers;
  read_integers(object, argument, integers);
  if (integers.size != batch) {
    bad_value(argument, std::to_string(batch) + " integers, one per request",
              std::to_string(integers.size));
  }
  std::vector<std::int64_t> values;
  for (std::int64_t b = 0; b < batch; ++b) values.push_back(integers.values()[b]);
  return values;
}

void read_tensors(nb::handle q, nb::handle k, nb::handle v, Dense& dense) {
  dense.q = tensor(q, "q", 4, "(B, H, S, Dq)");
  dense.k = tensor(k, "k", 4, "(B, H, N, Dq)");
  dense.v = tensor(v, "v", 4, "(B, H, N, Dv)");
  attention::Args& args = dense.args;
  args.dtype = args.out_dtype = dense.q.float_type();
  check_same_dtype(dense.k, dense.q);
  check_same_dtype(dense.v, dense.q);
  dense.batch = dense.q.shape[0];
  dense.heads = args.num_heads = dense.q.shape[1];
  dense.queries = dense.q.shape[2];
  dense.keys = dense.k.shape[2];
  args.qk_head_dim = dense.q.shape[3];
  args.v_head_dim = dense.v.shape[3];
  check_size(dense.k, 0, dense.batch, "the batch of q");
  check_size(dense.k, 1, dense.heads, "the heads of q");
  check_size(dense.k, 3, args.qk_head_dim, "the head dimension of q");
  check_size(dense.v, 0, dense.batch, "the batch of q");
  check_size(dense.v, 1, dense.heads, "the heads of q");
  check_size(dense.v, 2, dense.keys, "the keys of k");
}

struct Ranges {
  std::vector<std::int64_t> starts, lengths, offsets;
};

Ranges read_ranges(nb::handle key_lengths, nb::handle key_starts, nb::handle query_offset,
                   const Dense& dense) {
  Ranges ranges;
  ranges.starts = per_request(key_starts, "key_starts", dense.batch, 0);
  ranges.lengths = per_request(key_lengths, "key_lengths", dense.batch, -1);
  ranges.offsets =
      per_request(query_offset, "query_offset", dense.batch, dense.keys - dense.queries);
  for (std::size_t b = 0; b < ranges.starts.size(); ++b) {
    if (ranges.starts[b] < 0 || ranges.starts[b] > dense.keys) {
      bad_value("key_starts", "0.." + std::to_string(dense.keys), std::to_string(ranges.starts[b]));
    }
    const std::int64_t rest = dense.keys - ranges.starts[b];
    if (key_lengths.is_none()) ranges.lengths[b] = rest;
    if (ranges.lengths[b] < 0 || ranges.lengths[b] > rest) {
      bad_value("key_lengths", "0.." + std::to_string(rest) + " (the keys from key_starts on)",
                std::to_string(ranges.lengths[b]));
    }
    if (ranges.offsets[b] < -dense.queries || ranges.offsets[b] > dense.keys) {
      bad_value("query_offset", std::to_string(-dense.queries) + ".." + std::to_string(dense.keys),
                std::to_string(ranges.offsets[b]));
    }
  }
  return ranges;
}

void place(const Ranges& ranges, Dense& dense) {
  Places& places = dense.places;
  places.cu_seqlens_q = {0};
  places.cu_seqlens_k = {0};
  for (std::size_t b = 0; b < ranges.starts.size(); ++b) {
    const auto request = static_cast<std::int64_t>(b);
    places.cu_seqlens_q.push_back((request + 1) * dense.queries);
    places.cu_seqlens_k.push_back(places.cu_seqlens_k.back() + ranges.lengths[b]);
    places.q.push_back(request * dense.q.strides[0]);
    places.k.push_back(request * dense.k.strides[0] + ranges.starts[b] * dense.k.strides[2]);
    places.v.push_back(request * dense.v.strides[0] + ranges.starts[b] * dense.v.strides[2]);
    places.causal.push_back(ranges.offsets[b] - ranges.starts[b]);
  }
  attention::Args& args = dense.args;
  args.num_requests = dense.batch;
  args.total_q = dense.batch * dense.queries;
  args.total_k = places.cu_seqlens_k.back();
  args.cu_seqlens_q = places.cu_seqlens_q.data();
  args.cu_seqlens_k = places.cu_seqlens_k.data();
  args.causal_offsets = places.causal.data();
  const auto rows = [](const Tensor& tensor, const std::vector<std::int64_t>& offsets) {
    return attention::ConstRows{tensor.data, tensor.strides[2], tensor.strides[1], offsets.data()};
  };
  args.q = rows(dense.q, places.q);
  args.k = rows(dense.k, places.k);
  args.v = rows(dense.v, places.v);
}

void place_out(const Tensor& out, Dense& dense) {
  for (std::int64_t b = 0; b < dense.batch; ++b) dense.places.out.push_back(b * out.strides[0]);
  dense.args.out = {out.data, out.strides[2], out.strides[1], dense.places.out.data()};
}

nb::object attend_dense(nb::handle q, Dense& dense, const Options& options) {
  attention::Args& args = dense.args;
  args.scale = softmax_scale(options.scale, args.qk_head_dim);
  args.causal = options.causal;
  if (!options.causal) args.causal_offsets = nullptr;
  const attention::RunOptions run = run_options(options.num_threads);
  const bool given = !options.out.is_none();
  const nb::object out_object =
      given ? nb::borrow(options.out)
            : empty_like_kind(q, {dense.batch, dense.queries, dense.heads, args.v_head_dim},
                              dense.q.element, 1);
  const Tensor out = tensor(out_object, "out", 4, "(B, H, S, Dv)", Access::kWrite);
  const std::int64_t wanted[] = {dense.batch, dense.heads, dense.queries, args.v_head_dim};
  for (int i = 0; i < 4; ++i) check_size(out, i, wanted[i], "as q and v");
  args.out_dtype = out.float_type();
  place_out(out, dense);
  nb::object lse_object;
  Tensor lse;
  if (options.return_lse) {
    lse_object =
        empty_like_kind(q, {dense.heads, dense.batch, dense.queries}, Element::kFloat32, 0);
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
  const nb::object result = given ? out_object : as_kind_of(q, out_object);
  if (!options.return_lse) return result;
  return nb::make_tuple(result, as_kind_of(q, lse_object));
}

}  // namespace

void bind_dense(nb::module_& module) {
  module.def(
      "attend_dense",
      [](nb::any q, nb::any k, nb::any v, nb::any key_lengths, nb::any key_starts,
         nb::any query_offset, std::optional<double> scale, bool causal, bool return_lse,
         nb::any out, std::optional<std::string> backend,
         std::optional<int> num_threads) -> nb::any {
        Dense dense;
        read_tensors(q, k, v, dense);
        place(read_ranges(key_lengths, key_starts, query_offset, dense), dense);
        return nb::borrow<nb::any>(attend_dense(
            q, dense, {scale, causal, return_lse, out, std::move(backend), num_threads}));
      },
      nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::kw_only(), nb::arg("key_lengths") = nb::none(),
      nb::arg("key_starts") = nb::none(), nb::arg("query_offset") = nb::none(),
      nb::arg("scale") = nb::none(), nb::arg("causal") = true, nb::arg("return_lse") = false,
      nb::arg("out") = nb::none(), nb::arg("backend") = nb::none(),
      nb::arg("num_threads") = nb::none(), kDoc);
}

}  // namespace mla::python
