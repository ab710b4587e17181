// The ragged walk in one place: where a request's rows are and which keys a query sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mla/attention.h"

namespace mla::attention {

// One request of a validated batch.
struct Request {
  std::int64_t q_begin = 0;
  std::int64_t q_length = 0;
  std::int64_t k_begin = 0;
  std::int64_t k_length = 0;
  // Clamped to [-q_length, k_length], which changes no row's keys and keeps sums small; k_length
  // without causal.
  std::int64_t causal_offset = 0;

  // Keys that query i of the request sees: the first visible(i).
  std::int64_t visible(std::int64_t i) const {
    return std::clamp<std::int64_t>(causal_offset + 1 + i, 0, k_length);
  }
};

inline Request request_of(const Args& args, std::int64_t r) {
  Request request;
  request.q_begin = args.cu_seqlens_q[r];
  request.q_length = args.cu_seqlens_q.length(r);
  request.k_begin = args.cu_seqlens_k[r];
  request.k_length = args.cu_seqlens_k.length(r);
  const std::int64_t given =
      args.causal_offsets != nullptr ? args.causal_offsets[r] : request.k_length - request.q_length;
  request.causal_offset =
      args.causal ? std::clamp(given, -request.q_length, request.k_length) : request.k_length;
  return request;
}

// Elements from data to the first row of request r, whose first token is `begin`.
template <class AnyRows>
std::int64_t request_base(const AnyRows& rows, std::int64_t r, std::int64_t begin) {
  return rows.request_offsets != nullptr ? rows.request_offsets[r] : begin * rows.token_stride;
}

// Elements between the heads of lse: 0 stands for T.
inline std::int64_t lse_stride(const Args& args) {
  return args.lse_head_stride != 0 ? args.lse_head_stride : args.total_q;
}

}  // namespace mla::attention
