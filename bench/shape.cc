// One request of 512, 2048 and 8192 tokens, eight uneven ones of 2048 tokens in
// all beside eight even ones of the same work, 512 new tokens over 8192 of context, and a few new
// tokens over 8192.
#include "shape.h"

#include <cmath>

namespace mla::bench {

std::int64_t new_tokens(const Shape& shape) {
  std::int64_t sum = 0;
  for (const RequestLengths& request : shape.requests) sum += request.new_tokens;
  return sum;
}

std::int64_t key_tokens(const Shape& shape) {
  std::int64_t sum = 0;
  for (const RequestLengths& request : shape.requests) sum += request.new_tokens + request.context;
  return sum;
}

double visible_pairs(const Shape& shape) {
  double pairs = 0.0;
  for (const RequestLengths& request : shape.requests) {
    const auto m = static_cast<double>(request.new_tokens);
    pairs += m * static_cast<double>(request.context) + m * (m + 1.0) / 2.0;
  }
  return pairs;
}

double flops(const Shape& shape) {
  const auto widths = static_cast<double>(shape.dims.qk_head_dim() + shape.dims.v_head_dim);
  return 2.0 * static_cast<double>(shape.num_heads) * widths * visible_pairs(shape);
}

std::vector<Shape> standard_shapes(DType dtype) {
  const MlaDims dims{128, 64, 128};
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dims.qk_head_dim())));
  std::vector<Shape> shapes;
  const auto add = [&](std::string name, std::int64_t heads, std::vector<RequestLengths> requests) {
    shapes.push_back({std::move(name), heads, dims, dtype, std::move(requests), scale});
  };
  add("prompt-128", 16, {{128, 0}});
  add("prompt-512", 16, {{512, 0}});
  add("prompt-2048", 16, {{2048, 0}});
  add("prompt-8192", 16, {{8192, 0}});
  add("uneven-8x", 16,
      {{700, 0}, {17, 0}, {333, 0}, {64, 0}, {512, 0}, {1, 0}, {250, 0}, {171, 0}});
  // As many visible pairs as the eight above, to 0.1 %.
  add("even-8x", 16, std::vector<RequestLengths>(8, {346, 0}));
  add("context-512+8192", 16, {{512, 8192}});
  add("decode-1+8192", 16, {{1, 8192}});
  add("decode-16+8192", 16, {{16, 8192}});
  add("prompt-2048-h128", 128, {{2048, 0}});
  return shapes;
}

}  // namespace mla::bench
