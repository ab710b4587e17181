// What is attended to: requests of new tokens over context, and the sizes that follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mla/core.h"

namespace mla::bench {

struct RequestLengths {
  std::int64_t new_tokens = 0;
  std::int64_t context = 0;
  friend bool operator==(const RequestLengths&, const RequestLengths&) = default;
};

struct Shape {
  std::string name;
  std::int64_t num_heads = 0;
  MlaDims dims;
  DType dtype = DType::kBFloat16;
  std::vector<RequestLengths> requests;
  float scale = 0.0F;
};

// Sums over the requests, in double where a product could leave 64 bits.
std::int64_t new_tokens(const Shape& shape);
std::int64_t key_tokens(const Shape& shape);  // context included
// Query-key pairs that a causal mask lets through.
double visible_pairs(const Shape& shape);
// 2 H (Dq + Dv) for each visible pair; packing, softmax and masked parts count nothing.
double flops(const Shape& shape);

// The shapes of docs/performance.md: 128/64/128, causal, 16 and 128 heads.
std::vector<Shape> standard_shapes(DType dtype);

}  // namespace mla::bench
