// Checks of arguments that several entry points share. All of them answer before anything is
// written, and none reads the data behind q, k, v, out or lse.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "attention/footprint.h"
#include "mla/attention.h"

namespace mla::attention {

// What validate() checks of everything but out and lse.
Status validate_inputs(const Args& args);

inline Error invalid(std::string_view field, std::string message) {
  return {ErrorCode::kInvalidArgument, std::string(field), std::move(message)};
}

// A tensor [tokens, heads, width] and its name in messages.
struct TensorSpec {
  std::string_view field;
  DType dtype = DType::kFloat32;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
};
// Non-null, aligned to its elements; the bytes it touches go to *footprint (none when it is empty).
// `requests` and `cu_seqlens` say where request_offsets apply.
struct RequestTable {
  std::int64_t count = 0;
  const CuSeqlens* cu_seqlens = nullptr;
};
Status check_tensor(const TensorSpec& spec, const ConstRows& rows, RequestTable requests,
                    Footprint* footprint);
// The same for lse [heads, tokens]; head_stride as given, 0 for tokens.
Status check_lse(const TensorSpec& spec, const float* lse, std::int64_t head_stride,
                 Footprint* footprint);

// Sizes and dtypes that every tensor of a call shares.
Status check_dtype(std::string_view field, DType dtype);
Status check_out_dtype(DType dtype, DType out_dtype);
Status check_range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high);

inline constexpr std::int64_t kMaxHeadDim = 2048;

inline ConstRows as_const(const Rows& rows) {
  return {rows.data, rows.token_stride, rows.head_stride, rows.request_offsets};
}

}  // namespace mla::attention
