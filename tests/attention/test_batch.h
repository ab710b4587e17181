// A batch with memory of its own for tests: contiguous [T,H,D] tensors that a test may fill and
// bend.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/half.h"
#include "mla/attention.h"

namespace mla::attention {

struct BatchSpec {
  std::vector<std::int64_t> q_lengths;
  std::vector<std::int64_t> k_lengths;
  std::int64_t heads = 1;
  std::int64_t qk_dim = 1;
  std::int64_t v_dim = 1;
};

// float32 throughout.
struct TestBatch {
  explicit TestBatch(const BatchSpec& spec) {
    for (std::int64_t length : spec.q_lengths) cu_q.push_back(cu_q.back() + length);
    for (std::int64_t length : spec.k_lengths) cu_k.push_back(cu_k.back() + length);
    const auto size = [&](std::int64_t tokens, std::int64_t dim) {
      return static_cast<std::size_t>(tokens * spec.heads * dim);
    };
    q.resize(size(cu_q.back(), spec.qk_dim));
    k.resize(size(cu_k.back(), spec.qk_dim));
    v.resize(size(cu_k.back(), spec.v_dim));
    out.assign(size(cu_q.back(), spec.v_dim), -77.0f);
    lse.assign(size(cu_q.back(), 1), -77.0f);
    args.num_requests = static_cast<std::int64_t>(spec.q_lengths.size());
    args.num_heads = spec.heads;
    args.total_q = cu_q.back();
    args.total_k = cu_k.back();
    args.qk_head_dim = spec.qk_dim;
    args.v_head_dim = spec.v_dim;
    args.dtype = args.out_dtype = DType::kFloat32;
    args.q = {q.data(), spec.heads * spec.qk_dim, spec.qk_dim, nullptr};
    args.k = {k.data(), spec.heads * spec.qk_dim, spec.qk_dim, nullptr};
    args.v = {v.data(), spec.heads * spec.v_dim, spec.v_dim, nullptr};
    args.out = {out.data(), spec.heads * spec.v_dim, spec.v_dim, nullptr};
    args.lse = lse.data();
    args.cu_seqlens_q = CuSeqlens(cu_q.data());
    args.cu_seqlens_k = CuSeqlens(cu_k.data());
    args.scale = 1.0f;
  }
  TestBatch(const TestBatch&) = delete;
  TestBatch& operator=(const TestBatch&) = delete;

  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (std::vector<float>* tensor : {&q, &k, &v}) {
      for (float& x : *tensor) x = normal(random);
    }
  }

  // The reference's answer, widths as in args.
  struct Answer {
    std::vector<double> out, lse;
    Status status;
  };
  Answer reference() const {
    Answer answer;
    answer.out.assign(out.size(), -77.0);
    answer.lse.assign(lse.size(), -77.0);
    answer.status = attention::reference(args, answer.out.data(), answer.lse.data());
    return answer;
  }

  std::vector<std::int64_t> cu_q{0}, cu_k{0};
  std::vector<float> q, k, v, out, lse;
  Args args;
};

}  // namespace mla::attention
