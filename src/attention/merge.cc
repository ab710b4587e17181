// Merge of partial results over disjoint sets of keys, one row (token, head) at a time in fp32.
//
// A row costs two exp and a log1p, then one pass over Dv elements: three streams, so memory-bound
// from a few tokens on. Compiled without floating-point contraction: a fused multiply-add would
// make merge(a, b) and merge(b, a) differ in the last bit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "attention/validate.h"
#include "core/half.h"

namespace mla::attention {
namespace {

constexpr float kEmpty = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// What becomes of a row. An empty side is not read: it may hold anything, and 0 * NaN is NaN.
enum class Mix : std::uint8_t { kZero, kTakeA, kTakeB, kBoth };

struct Blend {
  Mix mix = Mix::kZero;
  float lse = kEmpty;
  float a = 0.0f;  // weights, for kBoth
  float b = 0.0f;
};

Blend blend_of(float lse_a, float lse_b) {
  if (std::isnan(lse_a) || std::isnan(lse_b)) return {Mix::kBoth, kNaN, kNaN, kNaN};
  // Some kernels return +inf for a row without keys.
  const bool empty_a = std::isinf(lse_a);
  const bool empty_b = std::isinf(lse_b);
  if (empty_a && empty_b) return {};
  if (empty_b) return {Mix::kTakeA, lse_a};
  if (empty_a) return {Mix::kTakeB, lse_b};
  const float m = std::max(lse_a, lse_b);
  const float w_a = std::exp(lse_a - m);
  const float w_b = std::exp(lse_b - m);
  const float sum = w_a + w_b;
  // The larger weight is 1.
  return {Mix::kBoth, m + std::log1p(std::min(w_a, w_b)), w_a / sum, w_b / sum};
}

// In blocks through memory of its own: out may be a or b, which would keep the loops scalar.
template <class T, class Out>
void write_row(const T* a, const T* b, const Blend& blend, std::int64_t dim, Out* out) {
  constexpr std::int64_t kBlock = 64;
  float block[kBlock];
  for (std::int64_t start = 0; start < dim; start += kBlock) {
    const std::int64_t count = std::min(kBlock, dim - start);
    if (blend.mix == Mix::kBoth) {
      for (std::int64_t d = 0; d < count; ++d) {
        block[d] = blend.a * to_float(a[start + d]) + blend.b * to_float(b[start + d]);
      }
    } else {
      const T* from = blend.mix == Mix::kTakeA ? a : b;
      for (std::int64_t d = 0; d < count; ++d) block[d] = to_float(from[start + d]);
    }
    for (std::int64_t d = 0; d < count; ++d) from_float(block[d], &out[start + d]);
  }
}

template <class T, class Out>
void merge_tokens(const MergeArgs& args, std::int64_t begin, std::int64_t end) {
  const auto place = [&](std::int64_t head_stride, std::int64_t t, std::int64_t h) {
    return h * (head_stride != 0 ? head_stride : args.num_tokens) + t;
  };
  for (std::int64_t t = begin; t < end; ++t) {
    const bool merged = args.merged_tokens == nullptr || args.merged_tokens[t] != 0;
    for (std::int64_t h = 0; h < args.num_heads; ++h) {
      const T* a =
          static_cast<const T*>(args.a.data) + t * args.a.token_stride + h * args.a.head_stride;
      const T* b =
          static_cast<const T*>(args.b.data) + t * args.b.token_stride + h * args.b.head_stride;
      Out* out =
          static_cast<Out*>(args.out.data) + t * args.out.token_stride + h * args.out.head_stride;
      const float lse_a = args.lse_a[place(args.lse_a_head_stride, t, h)];
      const Blend blend = merged ? blend_of(lse_a, args.lse_b[place(args.lse_b_head_stride, t, h)])
                                 : Blend{Mix::kTakeA, lse_a};
      if (blend.mix == Mix::kZero) {
        std::fill_n(out, args.v_head_dim, Out{});
      } else {
        write_row(a, b, blend, args.v_head_dim, out);
      }
      if (args.lse != nullptr) args.lse[place(args.lse_head_stride, t, h)] = blend.lse;
    }
  }
}

using MergeTokens = void (*)(const MergeArgs&, std::int64_t, std::int64_t);

template <class T>
MergeTokens merge_for(DType out_dtype) {
  return out_dtype == DType::kFloat32 ? merge_tokens<T, float> : merge_tokens<T, T>;
}

MergeTokens merge_for(const MergeArgs& args) {
  switch (args.dtype) {
    case DType::kFloat32:
      return merge_for<float>(args.out_dtype);
    case DType::kFloat16:
      return merge_for<Float16>(args.out_dtype);
    default:
      return merge_for<BFloat16>(args.out_dtype);
  }
}

// The same element at the same place, so that a row is read before it is written.
bool in_place(const MergeArgs& args, const ConstRows& rows) {
  return args.out.data == rows.data && args.out_dtype == args.dtype &&
         (args.out.token_stride == rows.token_stride || args.num_tokens == 1) &&
         (args.out.head_stride == rows.head_stride || args.num_heads == 1);
}

bool lse_in_place(const MergeArgs& args, const float* lse, std::int64_t head_stride) {
  const auto stride = [&](std::int64_t given) { return given != 0 ? given : args.num_tokens; };
  return args.lse == lse &&
         (stride(args.lse_head_stride) == stride(head_stride) || args.num_heads == 1);
}

Status check_sizes(const MergeArgs& args) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (Status s = check_range("num_tokens", args.num_tokens, 0, kMax); !s) return s;
  if (Status s = check_range("num_heads", args.num_heads, 1, kMax); !s) return s;
  if (Status s = check_range("v_head_dim", args.v_head_dim, 1, kMaxHeadDim); !s) return s;
  if (Status s = check_dtype("dtype", args.dtype); !s) return s;
  if (Status s = check_out_dtype(args.dtype, args.out_dtype); !s) return s;
  std::int64_t rows = 0;
  if (__builtin_mul_overflow(args.num_tokens, args.num_heads, &rows) ||
      rows > kMax / (kMaxHeadDim * 8)) {
    return invalid("num_heads", fmt::format("sizes overflow 64 bits: num_heads={} with "
                                            "num_tokens={}",
                                            args.num_heads, args.num_tokens));
  }
  return {};
}

struct Operand {
  std::string_view field;
  Footprint footprint;
  bool in_place = false;  // may be the same memory as the output
};

Status check_disjoint(std::string_view field, const Footprint& output, const Operand& operand) {
  if (operand.in_place || !overlap(output, operand.footprint)) return {};
  return invalid(field,
                 fmt::format("{0} shares memory with {1} without being {1}", field, operand.field));
}

Status check(const MergeArgs& args) {
  if (Status s = check_sizes(args); !s) return s;
  const TensorSpec rows{"", args.dtype, args.num_tokens, args.num_heads, args.v_head_dim};
  const auto tensor = [&](std::string_view field, DType dtype, const ConstRows& data,
                          Footprint* footprint) -> Status {
    TensorSpec spec = rows;
    spec.field = field;
    spec.dtype = dtype;
    if (data.request_offsets != nullptr) {
      return invalid(field, fmt::format("{} has request_offsets; a merge takes none", field));
    }
    return check_tensor(spec, {data.data, data.token_stride, data.head_stride}, {}, footprint);
  };
  const auto vector = [&](std::string_view field, const float* lse, std::int64_t stride,
                          Footprint* footprint) {
    const TensorSpec spec{field, DType::kFloat32, args.num_tokens, args.num_heads, 1};
    return check_lse(spec, lse, stride, footprint);
  };
  Operand a{"a", {}, in_place(args, args.a)};
  Operand b{"b", {}, in_place(args, args.b)};
  Operand lse_a{"lse_a", {}, lse_in_place(args, args.lse_a, args.lse_a_head_stride)};
  Operand lse_b{"lse_b", {}, lse_in_place(args, args.lse_b, args.lse_b_head_stride)};
  Footprint out, lse;
  if (Status s = tensor("a", args.dtype, args.a, &a.footprint); !s) return s;
  if (Status s = tensor("b", args.dtype, args.b, &b.footprint); !s) return s;
  Status s = tensor("out", args.out_dtype, as_const(args.out), &out);
  if (!s) return s;
  if (s = vector("lse_a", args.lse_a, args.lse_a_head_stride, &lse_a.footprint); !s) return s;
  if (s = vector("lse_b", args.lse_b, args.lse_b_head_stride, &lse_b.footprint); !s) return s;
  if (args.lse != nullptr) {
    if (s = vector("lse", args.lse, args.lse_head_stride, &lse); !s) return s;
  }
  if (overlaps_itself(out)) {
    return invalid("out", fmt::format("rows of out overlap: token_stride={}, head_stride={}",
                                      args.out.token_stride, args.out.head_stride));
  }
  const Operand written_lse{"lse", lse, false};
  for (const Operand* operand : {&a, &b}) {
    if (s = check_disjoint("out", out, *operand); !s) return s;
    if (s = check_disjoint("lse", lse, {operand->field, operand->footprint, false}); !s) return s;
  }
  for (const Operand* operand : {&lse_a, &lse_b}) {
    if (s = check_disjoint("lse", lse, *operand); !s) return s;
    if (s = check_disjoint("out", out, {operand->field, operand->footprint, false}); !s) return s;
  }
  return check_disjoint("out", out, written_lse);
}

}  // namespace

Status merge(const MergeArgs& args, const RunOptions& options) {
  try {
    if (Status s = check(args); !s) return s;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "num_tokens", "no memory to check the arguments"};
  }
  if (args.num_tokens == 0) return {};
  const MergeTokens run = merge_for(args);
  Executor& executor = options.executor != nullptr ? *options.executor : default_executor();
  const std::int64_t wanted =
      options.num_threads > 0 ? options.num_threads : executor.concurrency();
  // A worker's share is worth its start from about 64 KiB on.
  const std::int64_t elements = args.num_tokens * args.num_heads * args.v_head_dim;
  const std::int64_t worth = std::max<std::int64_t>(1, elements / (32 * 1024));
  const std::int64_t workers = std::min({wanted, worth, args.num_tokens});
  if (workers == 1) {
    run(args, 0, args.num_tokens);
    return {};
  }
  executor.for_each_worker(static_cast<int>(workers), [&](int worker) {
    const std::int64_t share = args.num_tokens / workers;
    const std::int64_t rest = args.num_tokens % workers;
    const std::int64_t begin = worker * share + std::min<std::int64_t>(worker, rest);
    run(args, begin, begin + share + (worker < rest ? 1 : 0));
  });
  return {};
}

}  // namespace mla::attention
