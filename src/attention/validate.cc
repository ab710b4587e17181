// Every fault of the arguments that shows without touching the data.
//
// Order: scalars, offsets, then memory (null, alignment, 64-bit range, overlap with an output), so
// that the first message is the most basic one.
#include "attention/validate.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <new>

namespace mla::attention {
namespace {

constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

// How far sizes may go so that every count of rows, elements and bytes fits 64 bits, with room for
// the padding and the accumulators of an implementation.
Status check_sizes(const Args& args) {
  constexpr std::int64_t kRowBytes = kMaxHeadDim * 8;
  std::int64_t rows = 1;
  const bool overflow = __builtin_add_overflow(rows, args.num_requests, &rows) ||
                        __builtin_add_overflow(rows, args.total_q, &rows) ||
                        __builtin_add_overflow(rows, args.total_k, &rows) ||
                        __builtin_mul_overflow(rows, args.num_heads, &rows) ||
                        rows > kMaxInt64 / kRowBytes;
  if (!overflow) return {};
  return invalid("num_heads",
                 fmt::format("sizes overflow 64 bits: num_heads={} with "
                             "num_requests={}, total_q={}, total_k={}",
                             args.num_heads, args.num_requests, args.total_q, args.total_k));
}

Status check_scalars(const Args& args) {
  const struct {
    std::string_view field;
    std::int64_t value, low, high;
  } ranges[] = {{"num_requests", args.num_requests, 0, kMaxInt64 - 1},
                {"num_heads", args.num_heads, 1, kMaxInt64},
                {"total_q", args.total_q, 0, kMaxInt64},
                {"total_k", args.total_k, 0, kMaxInt64},
                {"qk_head_dim", args.qk_head_dim, 1, kMaxHeadDim},
                {"v_head_dim", args.v_head_dim, 1, kMaxHeadDim}};
  for (const auto& range : ranges) {
    if (Status s = check_range(range.field, range.value, range.low, range.high); !s) return s;
  }
  if (Status s = check_dtype("dtype", args.dtype); !s) return s;
  if (!std::isfinite(args.scale)) {
    return invalid("scale", fmt::format("scale is {}; wanted a finite number", args.scale));
  }
  return check_sizes(args);
}

Status check_offsets(std::string_view field, const CuSeqlens& offsets, std::int64_t requests,
                     std::string_view total_field, std::int64_t total) {
  if (offsets.null()) {
    if (requests == 0 && total == 0) return {};
    return invalid(field, fmt::format("{} is null; num_requests={}, {}={}", field, requests,
                                      total_field, total));
  }
  if (offsets[0] != 0) {
    return invalid(field, fmt::format("{}[0] is {}; wanted 0", field, offsets[0]));
  }
  for (std::int64_t r = 0; r < requests; ++r) {
    if (offsets[r + 1] < offsets[r]) {
      return invalid(field, fmt::format("{0}[{1}] is {2}, below {0}[{3}]={4}", field, r + 1,
                                        offsets[r + 1], r, offsets[r]));
    }
  }
  if (offsets[requests] != total) {
    return invalid(field, fmt::format("{}[{}] is {}; wanted {}={}", field, requests,
                                      offsets[requests], total_field, total));
  }
  return {};
}

struct Inputs {
  Footprint q, k, v;
};

Status check_inputs(const Args& args, Inputs* inputs) {
  if (Status s = check_scalars(args); !s) return s;
  const std::int64_t requests = args.num_requests;
  Status s = check_offsets("cu_seqlens_q", args.cu_seqlens_q, requests, "total_q", args.total_q);
  if (!s) return s;
  s = check_offsets("cu_seqlens_k", args.cu_seqlens_k, requests, "total_k", args.total_k);
  if (!s) return s;
  const std::int64_t heads = args.num_heads;
  const RequestTable q_table{requests, &args.cu_seqlens_q};
  const RequestTable k_table{requests, &args.cu_seqlens_k};
  const TensorSpec q{"q", args.dtype, args.total_q, heads, args.qk_head_dim};
  const TensorSpec k{"k", args.dtype, args.total_k, heads, args.qk_head_dim};
  const TensorSpec v{"v", args.dtype, args.total_k, heads, args.v_head_dim};
  if (s = check_tensor(q, args.q, q_table, &inputs->q); !s) return s;
  if (s = check_tensor(k, args.k, k_table, &inputs->k); !s) return s;
  return check_tensor(v, args.v, k_table, &inputs->v);
}

Status check_outputs(const Args& args, const Inputs& inputs) {
  if (Status s = check_out_dtype(args.dtype, args.out_dtype); !s) return s;
  const TensorSpec spec{"out", args.out_dtype, args.total_q, args.num_heads, args.v_head_dim};
  Footprint out;
  Status s = check_tensor(spec, as_const(args.out), {args.num_requests, &args.cu_seqlens_q}, &out);
  if (!s) return s;
  if (overlaps_itself(out)) {
    return invalid("out",
                   fmt::format("rows of out overlap: token_stride={}, head_stride={}, "
                               "v_head_dim={}",
                               args.out.token_stride, args.out.head_stride, args.v_head_dim));
  }
  Footprint lse;
  if (args.lse != nullptr) {
    const TensorSpec lse_spec{"lse", DType::kFloat32, args.total_q, args.num_heads, 1};
    if (s = check_lse(lse_spec, args.lse, args.lse_head_stride, &lse); !s) return s;
  }
  const struct {
    std::string_view field;
    const Footprint& footprint;
  } read[] = {{"q", inputs.q}, {"k", inputs.k}, {"v", inputs.v}};
  for (const auto& input : read) {
    if (overlap(out, input.footprint)) {
      return invalid("out", fmt::format("out shares memory with {}", input.field));
    }
    if (overlap(lse, input.footprint)) {
      return invalid("lse", fmt::format("lse shares memory with {}", input.field));
    }
  }
  if (overlap(lse, out)) return invalid("lse", "lse shares memory with out");
  return {};
}

Error out_of_memory() {
  return {ErrorCode::kOutOfMemory, "num_requests", "no memory to check the arguments"};
}

Status check_pointer(std::string_view field, const void* data, std::int64_t alignment) {
  if (data == nullptr) return invalid(field, fmt::format("{} is null", field));
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % static_cast<std::uintptr_t>(alignment) == 0) return {};
  return invalid(field,
                 fmt::format("{} is at {:#x}; wanted a multiple of {}", field, address, alignment));
}

}  // namespace

Status check_range(std::string_view field, std::int64_t value, std::int64_t low,
                   std::int64_t high) {
  if (value >= low && value <= high) return {};
  if (value < low) {
    return invalid(field, fmt::format("{} is {}; wanted at least {}", field, value, low));
  }
  return invalid(field, fmt::format("{} is {}; wanted at most {}", field, value, high));
}

Status check_dtype(std::string_view field, DType dtype) {
  if (dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16) return {};
  return invalid(field,
                 fmt::format("{} is {}; wanted float32, float16 or bfloat16", field, name(dtype)));
}

Status check_out_dtype(DType dtype, DType out_dtype) {
  if (out_dtype == dtype || out_dtype == DType::kFloat32) return {};
  const std::string_view others = dtype == DType::kFloat32 ? "" : " or float32";
  return invalid("out_dtype",
                 fmt::format("out_dtype is {}; wanted {}{}", name(out_dtype), name(dtype), others));
}

Status check_tensor(const TensorSpec& spec, const ConstRows& rows, RequestTable requests,
                    Footprint* footprint) {
  if (spec.tokens == 0) return {};
  if (Status s = check_pointer(spec.field, rows.data, size_of(spec.dtype)); !s) return s;
  BlockSpec block{rows.data,        0,          spec.tokens,        rows.token_stride, spec.heads,
                  rows.head_stride, spec.width, size_of(spec.dtype)};
  const auto add = [&]() -> Status {
    const std::optional<RowBlock> made = make_block(block);
    if (!made) {
      return invalid(spec.field, fmt::format("{} reaches beyond 64-bit addresses: token_stride={}, "
                                             "head_stride={}, offset={}, tokens={}, heads={}",
                                             spec.field, rows.token_stride, rows.head_stride,
                                             block.offset, block.tokens, block.heads));
    }
    footprint->push_back(*made);
    return {};
  };
  if (rows.request_offsets == nullptr) return add();
  for (std::int64_t r = 0; r < requests.count; ++r) {
    block.offset = rows.request_offsets[r];
    block.tokens = requests.cu_seqlens->length(r);
    if (block.tokens == 0) continue;
    if (Status s = add(); !s) return s;
  }
  return {};
}

Status check_lse(const TensorSpec& spec, const float* lse, std::int64_t head_stride,
                 Footprint* footprint) {
  if (spec.tokens == 0) return {};
  ConstRows rows{lse, 0, head_stride != 0 ? head_stride : spec.tokens, nullptr};
  // One row of all tokens for each head.
  const TensorSpec heads{spec.field, spec.dtype, 1, spec.heads, spec.tokens};
  if (Status s = check_tensor(heads, rows, {}, footprint); !s) return s;
  if (!overlaps_itself(*footprint)) return {};
  return invalid(spec.field, fmt::format("heads of {0} overlap: {0}_head_stride={1}, tokens={2}",
                                         spec.field, head_stride, spec.tokens));
}

Status validate_inputs(const Args& args) {
  try {
    Inputs inputs;
    return check_inputs(args, &inputs);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

Status validate(const Args& args) {
  try {
    Inputs inputs;
    if (Status s = check_inputs(args, &inputs); !s) return s;
    return check_outputs(args, inputs);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace mla::attention
