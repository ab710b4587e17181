// Properties of the way in and of the way parts are put together: refusals leave no trace, and
// chunks merged are the whole.
#include <cmath>
#include <functional>
#include <limits>

#include "number.h"
#include "properties.h"

namespace mla::conformance {
namespace {

using attention::Args;

struct Fault {
  const char* field;  // that the error must name
  std::function<void(Args&)> make;
};

std::vector<Fault> faults() {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  static const std::int64_t decreasing[] = {0, 5, 3};
  static const std::int64_t negative[] = {-1, 4, 9};
  static const std::int64_t far[] = {0, std::numeric_limits<std::int64_t>::max() - 8};
  const auto shifted = [](const void* data) -> const void* {
    return static_cast<const std::byte*>(data) + 1;
  };
  return {
      {"q", [](Args& args) { args.q.data = nullptr; }},
      {"k", [](Args& args) { args.k.data = nullptr; }},
      {"v", [](Args& args) { args.v.data = nullptr; }},
      {"out", [](Args& args) { args.out.data = nullptr; }},
      {"cu_seqlens_q", [](Args& args) { args.cu_seqlens_q = {}; }},
      {"cu_seqlens_k", [](Args& args) { args.cu_seqlens_k = attention::CuSeqlens(decreasing); }},
      {"cu_seqlens_q", [](Args& args) { args.cu_seqlens_q = attention::CuSeqlens(negative); }},
      {"cu_seqlens_q", [](Args& args) { args.total_q -= 1; }},
      {"cu_seqlens_k", [](Args& args) { args.total_k += 1; }},
      {"num_requests", [](Args& args) { args.num_requests = -1; }},
      {"num_heads", [](Args& args) { args.num_heads = 0; }},
      {"num_heads",
       [](Args& args) { args.num_heads = std::numeric_limits<std::int64_t>::max() / 2; }},
      {"qk_head_dim", [](Args& args) { args.qk_head_dim = 0; }},
      {"v_head_dim", [](Args& args) { args.v_head_dim = -3; }},
      {"qk_head_dim", [](Args& args) { args.qk_head_dim = 2049; }},
      {"dtype", [](Args& args) { args.dtype = args.out_dtype = DType::kFloat8E4M3; }},
      {"out_dtype", [](Args& args) { args.out_dtype = DType::kFloat8E4M3; }},
      {"scale", [nan](Args& args) { args.scale = nan; }},
      {"scale", [](Args& args) { args.scale = std::numeric_limits<float>::infinity(); }},
      {"k", [shifted](Args& args) { args.k.data = shifted(args.k.data); }},
      {"out", [](Args& args) { args.out.token_stride = 1; }},
      {"out", [](Args& args) { args.out.head_stride = 0; }},
      {"out", [](Args& args) { args.out.request_offsets = far; }},
      {"out", [](Args& args) { args.out.data = const_cast<void*>(args.v.data); }},
      {"q", [](Args& args) { args.q.token_stride = std::numeric_limits<std::int64_t>::max(); }},
      {"lse", [](Args& args) { args.lse_head_stride = 1; }},
      {"lse", [](Args& args) { args.lse = static_cast<float*>(args.out.data); }},
  };
}

// Keys [first, last) of every request, as a batch of its own over the same memory.
struct KeySlice {
  std::vector<std::int64_t> cu_k{0}, k_starts, v_starts, offsets;

  KeySlice(const Batch& batch, bool head_part, std::int64_t (*cut)(std::int64_t)) {
    const BatchSpec& spec = batch.spec();
    for (std::int64_t r = 0; r < batch.requests(); ++r) {
      const std::int64_t n = spec.k_lengths[static_cast<std::size_t>(r)];
      const std::int64_t m = spec.q_lengths[static_cast<std::size_t>(r)];
      const std::int64_t middle = cut(n);
      const std::int64_t first = head_part ? 0 : middle;
      cu_k.push_back(cu_k.back() + (head_part ? middle : n - middle));
      const auto place = [&](const Tensor& tensor) {
        const auto* base = static_cast<const std::byte*>(tensor.rows().data);
        return (tensor.row(r, first, 0) - base) / size_of(spec.dtype);
      };
      k_starts.push_back(place(batch.k()));
      v_starts.push_back(place(batch.v()));
      offsets.push_back(n - m - first);
    }
  }

  void apply(Args& args) const {
    args.total_k = cu_k.back();
    args.cu_seqlens_k = attention::CuSeqlens(cu_k.data());
    args.k.request_offsets = k_starts.data();
    args.v.request_offsets = v_starts.data();
    args.causal_offsets = offsets.data();
  }
};

void check_merge(Trial& trial, const BatchSpec& spec, std::int64_t (*cut)(std::int64_t)) {
  const Batch batch(spec);
  Run parts[2] = {{{}, batch.new_out(), batch.new_lse(), ""},
                  {{}, batch.new_out(), batch.new_lse(), ""}};
  for (int part = 0; part < 2; ++part) {
    const KeySlice slice(batch, part == 0, cut);
    Args args = batch.args(parts[part].out, parts[part].lse);
    slice.apply(args);
    const Status status = attention::attend(trial.implementation(), args);
    if (!status.ok()) return trial.fault(spec, "refused: " + status.error().message);
    trial.count();
  }
  attention::MergeArgs merge;
  merge.num_tokens = batch.total_q();
  merge.num_heads = spec.heads;
  merge.v_head_dim = spec.v_dim;
  merge.dtype = merge.out_dtype = spec.out_dtype;
  merge.a = parts[0].out.rows();
  merge.b = parts[1].out.rows();
  merge.out = parts[0].out.writable();
  const auto lse = [](const Tensor& tensor) { return static_cast<float*>(tensor.writable().data); };
  merge.lse_a = merge.lse = lse(parts[0].lse);
  merge.lse_b = lse(parts[1].lse);
  const Status status = attention::merge(merge);
  if (!status.ok()) return trial.fault(spec, "merge refused: " + status.error().message);
  trial.compare(batch, parts[0]);
}

}  // namespace

void check_bad_arguments(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    BatchSpec spec = trial.spec(dtype);
    spec.q_lengths = {4, 5};
    spec.k_lengths = {6, 5};
    spec.wide_offsets = true;
    const Batch batch(spec);
    for (const Fault& fault : faults()) {
      Tensor out = batch.new_out();
      Tensor lse = batch.new_lse();
      out.paint(std::byte{0x5a}, std::byte{0x5a});
      lse.paint(std::byte{0x5a}, std::byte{0x5a});
      Args args = batch.args(out, lse);
      fault.make(args);
      const Status status = attention::attend(trial.implementation(), args);
      trial.count();
      const std::string what = std::string("a fault of ") + fault.field;
      if (status.ok()) return trial.fault(spec, what + " was accepted");
      if (status.error().field != fault.field) {
        return trial.fault(spec, what + " was called one of '" + status.error().field +
                                     "': " + status.error().message);
      }
      if (!out.is_all(std::byte{0x5a}) || !lse.is_all(std::byte{0x5a})) {
        return trial.fault(spec, what + " wrote to an output");
      }
    }
  }
}

void check_merge_chunks(Trial& trial) {
  constexpr std::int64_t (*kCuts[])(std::int64_t) = {
      [](std::int64_t n) { return n / 2; }, [](std::int64_t n) { return n / 3 / 16 * 16; },
      [](std::int64_t) { return std::int64_t{0}; }, [](std::int64_t n) { return n; },
      [](std::int64_t n) { return std::min<std::int64_t>(n, 1); }};
  for (DType dtype : trial.dtypes()) {
    for (bool causal : {true, false}) {
      for (const auto cut : kCuts) {
        if (trial.failed()) return;
        BatchSpec spec = trial.spec(dtype);
        spec.out_dtype = DType::kFloat32;  // parts keep their precision until they are merged
        spec.causal = causal;
        spec.layout = Layout::kGapped;
        spec.q_lengths = {70, 20, 9, 0};
        spec.k_lengths = {200, 10, 9, 4};
        check_merge(trial, spec, cut);
      }
    }
  }
}

}  // namespace mla::conformance
