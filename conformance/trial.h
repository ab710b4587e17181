// One property being checked: runs batches on the subject, measures, keeps the first fault.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "batch.h"
#include "conformance.h"

namespace mla::conformance {

struct Dims {
  std::int64_t qk = 0;
  std::int64_t v = 0;
};

class Trial {
 public:
  Trial(const Subject& subject, const Options& options, Verdict* verdict)
      : subject_(subject), options_(options), verdict_(*verdict) {}

  const attention::Implementation& implementation() const { return *subject_.implementation; }
  const Options& options() const { return options_; }

  // The element types the subject takes.
  std::vector<DType> dtypes() const;
  bool any_dims() const { return subject_.dims.empty(); }
  // The first of the subject's shapes or, where it takes any, `otherwise`.
  Dims dims_or(Dims otherwise) const;
  // All of the subject's shapes or, where it takes any, `otherwise`.
  std::vector<Dims> all_dims_or(std::vector<Dims> otherwise) const;
  // A batch to start from: the subject's dims or small odd ones, and a seed of its own.
  BatchSpec spec(DType dtype);
  // The same for DeepSeek's dims, 192 and 128.
  BatchSpec model_spec(DType dtype);
  std::uint64_t next_seed();

  bool failed() const { return verdict_.outcome == Outcome::kFailed; }
  void fault(const BatchSpec& spec, const std::string& what);
  void skip(const std::string& reason);
  // A batch that ran elsewhere.
  void count();
  // What was measured, for the verdict's detail.
  void note(const std::string& what);

  // Runs a batch. A refusal, a write outside the rows and an earlier fault give nothing.
  std::optional<Run> run(const Batch& batch, const attention::RunOptions& options = {});
  std::optional<Run> run_alone(const Batch& batch, std::int64_t r);
  // Every element against the double reference, within the bounds of docs/numerics.md.
  void compare(const Batch& batch, const Run& run);
  // run() and compare().
  void check(const Batch& batch);
  void check(const BatchSpec& spec) { check(Batch(spec)); }

  // The same bits in both, where `row` (request, query of it) says so.
  template <class Select>
  void same_bits(const Batch& batch, const Run& run, const Run& other, const std::string& claim,
                 Select&& row);
  // Request r of a batch's run against its run alone.
  void same_request(const Batch& batch, const Run& together, const Run& alone, std::int64_t r);

 private:
  std::optional<Run> accept(const Batch& batch, Run run);
  bool too_long(const Batch& batch) const;
  bool same_row(const Batch& batch, const Run& run, const Run& other, std::int64_t r,
                std::int64_t i) const;

  const Subject& subject_;
  const Options& options_;
  Verdict& verdict_;
  std::uint64_t seeds_ = 0;
};

template <class Select>
void Trial::same_bits(const Batch& batch, const Run& run, const Run& other,
                      const std::string& claim, Select&& row) {
  for (std::int64_t r = 0; r < batch.requests(); ++r) {
    const std::int64_t m = batch.spec().q_lengths[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < m; ++i) {
      if (!row(r, i) || same_row(batch, run, other, r, i)) continue;
      fault(batch.spec(), claim + ": query " + std::to_string(i) + " of request " +
                              std::to_string(r) + " differs");
      return;
    }
  }
}

// The bounds of section "Error bounds" of docs/numerics.md. Everything absolute.
double out_bound(const BatchSpec& spec, double reference, double rms_v);
double lse_bound(const BatchSpec& spec, double reference);

}  // namespace mla::conformance
