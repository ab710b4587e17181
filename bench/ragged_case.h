// One ragged attention problem with inputs in memory: runs on any row, in one call or in chunks
// of context merged by log-sum-exp, and compares a sample of rows with the reference.
#pragma once

#include <cstdint>
#include <vector>

#include "accuracy.h"
#include "mla/attention.h"
#include "shape.h"
#include "tensor.h"

namespace mla::bench {

class RaggedCase {
 public:
  // Bytes that make() will ask for, in double: it may be beyond 64 bits.
  static double bytes_needed(const Shape& shape);
  static Result<RaggedCase> make(const Shape& shape, std::uint64_t seed);

  const Shape& shape() const { return shape_; }

  // One causal attention over context and new tokens.
  Status run(const attention::Implementation& implementation, const attention::RunOptions& options);
  // The new tokens causally, then each stretch of context without mask, merged.
  Status run_in_chunks(const attention::Implementation& implementation,
                       const attention::RunOptions& options, std::int64_t chunk_tokens);

  // Compares the last run with the reference: first and last new token of every request and some
  // between, as many heads of each as about `multiply_adds` pay for.
  Result<Accuracy> verify(double multiply_adds, const attention::RunOptions& options) const;

 private:
  struct Sample {
    std::int64_t token = 0;
    std::int64_t head = 0;
    std::int64_t request = 0;
    std::int64_t visible = 0;
  };

  RaggedCase(Shape shape, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse);
  attention::Args args();
  std::vector<Sample> samples(double multiply_adds) const;
  Status attend_chunk(const attention::Implementation& implementation,
                      const attention::RunOptions& options, std::int64_t begin, std::int64_t end);
  Status merge_part(const attention::RunOptions& options);

  Shape shape_;
  Tensor q_, k_, v_, out_, lse_;
  std::vector<Tensor> part_;  // out and lse of a chunk, made when first needed
  std::vector<std::int64_t> cu_q_, cu_k_, context_;
};

}  // namespace mla::bench
