// attend(): checks the arguments, gives an implementation the memory its traits ask for, and puts
// its answer into the contract's form. Without special traits it costs the check alone.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "attention/lse.h"
#include "attention/ragged.h"
#include "attention/validate.h"

namespace mla::attention {
namespace {

struct Free {
  void operator()(std::byte* memory) const { ::operator delete(memory); }
};

// A copy of a tensor [tokens, heads, width] with rows of `width` in the memory it owns.
class Packed {
 public:
  Packed() = default;
  // Null pointer: no memory.
  Packed(std::int64_t tokens, std::int64_t heads, std::int64_t row_bytes, std::int64_t alignment)
      : row_bytes_(row_bytes), token_bytes_(heads * row_bytes) {
    const std::int64_t bytes = tokens * token_bytes_ + alignment;
    memory_.reset(
        static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), std::nothrow)));
    if (memory_ == nullptr) return;
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    const auto unit = static_cast<std::uintptr_t>(alignment);
    data_ = memory_.get() + (unit - address % unit) % unit;
  }

  std::byte* row(std::int64_t t, std::int64_t h) const {
    return data_ + t * token_bytes_ + h * row_bytes_;
  }
  std::byte* data() const { return data_; }
  std::int64_t row_bytes() const { return row_bytes_; }
  std::int64_t token_bytes() const { return token_bytes_; }

 private:
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* data_ = nullptr;
  std::int64_t row_bytes_ = 0;
  std::int64_t token_bytes_ = 0;
};

// Whether every row starts at a multiple of `alignment` bytes.
bool aligned(const ConstRows& rows, std::int64_t requests, std::int64_t size,
             std::int64_t alignment) {
  if (alignment <= size) return true;
  const auto multiple = [&](std::int64_t elements) { return elements * size % alignment == 0; };
  if (reinterpret_cast<std::uintptr_t>(rows.data) % static_cast<std::uintptr_t>(alignment) != 0 ||
      !multiple(rows.token_stride) || !multiple(rows.head_stride)) {
    return false;
  }
  return rows.request_offsets == nullptr ||
         std::all_of(rows.request_offsets, rows.request_offsets + requests, multiple);
}

bool contiguous(const Args& args, const ConstRows& rows, std::int64_t width) {
  if (rows.head_stride != width || rows.token_stride != args.num_heads * width) return false;
  for (std::int64_t r = 0; rows.request_offsets != nullptr && r < args.num_requests; ++r) {
    if (args.cu_seqlens_k.length(r) != 0 &&
        rows.request_offsets[r] != args.cu_seqlens_k[r] * rows.token_stride) {
      return false;
    }
  }
  return true;
}

// Copies every row between the caller's memory and a packed copy of it.
template <class Copy>
void for_each_row(const Args& args, const CuSeqlens& cu_seqlens, const ConstRows& rows, DType dtype,
                  Copy&& copy) {
  for (std::int64_t r = 0; r < args.num_requests; ++r) {
    const std::int64_t base = request_base(rows, r, cu_seqlens[r]);
    for (std::int64_t i = 0; i < cu_seqlens.length(r); ++i) {
      for (std::int64_t h = 0; h < args.num_heads; ++h) {
        const std::int64_t offset = base + i * rows.token_stride + h * rows.head_stride;
        copy(cu_seqlens[r] + i, h, offset * size_of(dtype));
      }
    }
  }
}

Error no_memory(std::string_view field, std::int64_t tokens, std::int64_t heads,
                std::int64_t width) {
  return {ErrorCode::kOutOfMemory, std::string(field),
          fmt::format("no memory for a copy of {}: {} tokens, {} heads, {} elements", field, tokens,
                      heads, width)};
}

class Adapter {
 public:
  Adapter(const Implementation& implementation, const Args& args)
      : implementation_(implementation),
        traits_(implementation.traits()),
        given_(args),
        args_(args) {}

  Status run(const RunOptions& options) {
    if (Status s = check_tokens(); !s) return s;
    if (traits_ == Traits{}) return implementation_.attend(given_, options);
    const std::int64_t width = std::max(given_.qk_head_dim, given_.v_head_dim);
    if (traits_.pads_v) args_.qk_head_dim = args_.v_head_dim = width;
    const bool repack_v = traits_.needs_contiguous_v && !contiguous(given_, given_.v, width_v());
    if (Status s = adapt("q", given_.cu_seqlens_q, given_.total_q, given_.qk_head_dim, false,
                         &args_.q, &q_);
        !s) {
      return s;
    }
    if (Status s = adapt("k", given_.cu_seqlens_k, given_.total_k, given_.qk_head_dim, false,
                         &args_.k, &k_);
        !s) {
      return s;
    }
    if (Status s = adapt("v", given_.cu_seqlens_k, given_.total_k, given_.v_head_dim, repack_v,
                         &args_.v, &v_);
        !s) {
      return s;
    }
    if (Status s = adapt_outputs(); !s) return s;
    if (Status s = implementation_.attend(args_, options); !s) return s;
    finish();
    return {};
  }

 private:
  std::int64_t width_v() const { return args_.v_head_dim; }

  Status check_tokens() const {
    if (traits_.max_tokens <= 0) return {};
    const struct {
      std::string_view field;
      std::int64_t tokens;
    } totals[] = {{"total_q", given_.total_q}, {"total_k", given_.total_k}};
    for (const auto& total : totals) {
      if (total.tokens > traits_.max_tokens) {
        return Error{ErrorCode::kUnsupported, std::string(total.field),
                     fmt::format("{} is {}; this backend takes at most {} tokens", total.field,
                                 total.tokens, traits_.max_tokens)};
      }
    }
    return {};
  }

  // Rows of the packed form: padded to the alignment, unless they must have no gaps.
  Packed pack(std::int64_t tokens, std::int64_t width, DType dtype, bool gapless) const {
    const std::int64_t size = size_of(dtype);
    const std::int64_t alignment = std::max<std::int64_t>(traits_.alignment, size);
    const std::int64_t bytes = width * size;
    // A row is a whole number of elements as well.
    std::int64_t row = gapless ? bytes : (bytes + alignment - 1) / alignment * alignment;
    while (row % size != 0) row += alignment;
    return Packed(tokens, given_.num_heads, row, alignment);
  }

  Status adapt(std::string_view field, const CuSeqlens& cu_seqlens, std::int64_t tokens,
               std::int64_t given_width, bool repack, ConstRows* rows, Packed* packed) {
    const std::int64_t size = size_of(given_.dtype);
    const std::int64_t width = field == "v" ? args_.v_head_dim : args_.qk_head_dim;
    if (tokens == 0) return {};
    if (!repack && width == given_width &&
        aligned(*rows, given_.num_requests, size, traits_.alignment)) {
      return {};
    }
    *packed = pack(tokens, width, given_.dtype, field == "v" && traits_.needs_contiguous_v);
    if (packed->data() == nullptr) return no_memory(field, tokens, given_.num_heads, width);
    const auto* from = static_cast<const std::byte*>(rows->data);
    const auto bytes = static_cast<std::size_t>(given_width * size);
    const auto padding = static_cast<std::size_t>((width - given_width) * size);
    for_each_row(given_, cu_seqlens, *rows, given_.dtype,
                 [&](std::int64_t t, std::int64_t h, std::int64_t offset) {
                   std::memcpy(packed->row(t, h), from + offset, bytes);
                   std::memset(packed->row(t, h) + bytes, 0, padding);
                 });
    *rows = {packed->data(), packed->token_bytes() / size, packed->row_bytes() / size, nullptr};
    return {};
  }

  Status adapt_outputs() {
    const std::int64_t tokens = given_.total_q;
    const std::int64_t size = size_of(given_.out_dtype);
    if (width_v() != given_.v_head_dim ||
        !aligned(as_const(given_.out), given_.num_requests, size, traits_.alignment)) {
      out_ = pack(tokens, width_v(), given_.out_dtype, false);
      if (out_.data() == nullptr) return no_memory("out", tokens, given_.num_heads, width_v());
      args_.out = {out_.data(), out_.token_bytes() / size, out_.row_bytes() / size, nullptr};
    }
    if (given_.lse != nullptr && traits_.lse_layout == LseLayout::kTokensHeads) {
      lse_ = Packed(tokens, given_.num_heads, sizeof(float), sizeof(float));
      if (lse_.data() == nullptr) return no_memory("lse", tokens, given_.num_heads, 1);
      args_.lse = reinterpret_cast<float*>(lse_.data());
      args_.lse_head_stride = 0;
    }
    return {};
  }

  void finish() {
    auto* to = static_cast<std::byte*>(given_.out.data);
    const auto bytes = static_cast<std::size_t>(given_.v_head_dim * size_of(given_.out_dtype));
    const ConstRows out = as_const(given_.out);
    if (out_.data() != nullptr) {
      for_each_row(given_, given_.cu_seqlens_q, out, given_.out_dtype,
                   [&](std::int64_t t, std::int64_t h, std::int64_t offset) {
                     std::memcpy(to + offset, out_.row(t, h), bytes);
                   });
    }
    // What an implementation leaves in a row without keys is as foreign as its lse.
    for (std::int64_t r = 0; r < given_.num_requests; ++r) {
      const Request request = request_of(given_, r);
      const std::int64_t base = request_base(out, r, request.q_begin);
      for (std::int64_t i = 0; i < request.q_length && request.visible(i) == 0; ++i) {
        for (std::int64_t h = 0; h < given_.num_heads; ++h) {
          const std::int64_t offset = base + i * out.token_stride + h * out.head_stride;
          std::memset(to + offset * size_of(given_.out_dtype), 0, bytes);
        }
      }
    }
    if (given_.lse != nullptr) normalise_lse(traits_, given_, args_.lse, lse_stride(args_));
  }

  const Implementation& implementation_;
  const Traits traits_;
  const Args& given_;
  Args args_;  // what the implementation gets
  Packed q_, k_, v_, out_, lse_;
};

}  // namespace

Status attend(const Implementation& implementation, const Args& args, const RunOptions& options) {
  if (Status s = validate(args); !s) return s;
  if (args.total_q == 0) return {};
  return Adapter(implementation, args).run(options);
}

}  // namespace mla::attention
