// The list of properties, and what the suite does with it.
#include <algorithm>
#include <chrono>
#include <sstream>

#include "conformance.h"
#include "properties.h"
#include "trial.h"

namespace mla::conformance {
namespace {

struct Entry {
  Property property;
  void (*check)(Trial&);
};

// The cheap and the telling ones first.
constexpr Entry kEntries[] = {
    {{"ragged", "uneven requests agree with the double reference"}, check_ragged},
    {{"dims", "head dims of every model family, and odd ones up to 1024"}, check_dims},
    {{"causal_alignment", "the mask is aligned to the bottom right for any m and n"},
     check_causal_alignment},
    {{"causal_offsets", "offsets of a request's own, any 64-bit number"}, check_causal_offsets},
    {{"all_keys", "without a mask every key counts"}, check_all_keys},
    {{"empty", "no tokens, no keys, no requests: out 0 and lse -inf"}, check_empty},
    {{"block_edges", "lengths on both sides of every block edge"}, check_block_edges},
    {{"long_context", "few queries over thousands of keys"}, check_long_context},
    {{"strided_v", "v inside a key-value projection, read where it lies"}, check_strided_v},
    {{"layouts", "token-major, head-major, with gaps, requests in any order"}, check_layouts},
    {{"dense_batch", "padded [B,H,S,D] batches through request offsets"}, check_dense_batch},
    {{"shared_heads", "head stride 0, and v as a part of k"}, check_shared_heads},
    {{"float32_out", "float32 out for narrower inputs"}, check_float32_out},
    {{"lse", "any head stride of lse, and none at all"}, check_lse_faces},
    {{"offset_width", "int32 and int64 cu_seqlens alike"}, check_offset_width},
    {{"masked_nan", "NaN and inf in keys and values reach only rows that see them"},
     check_masked_nan},
    {{"query_nan", "NaN and inf in a query reach no other row"}, check_query_nan},
    {{"request_nan", "a request of NaN leaves the others alone"}, check_request_nan},
    {{"outside_memory", "nothing outside the described rows is touched"}, check_outside_memory},
    {{"threads", "the same bits for 1, 2, 3 and 7 threads"}, check_threads},
    {{"executors", "the same bits on any executor"}, check_executors},
    {{"repeat", "the same bits on every run"}, check_repeat},
    {{"batch_invariance", "the same bits alone and in a batch"}, check_batch_invariance},
    {{"large_scores", "scores up to 1e4 with near ties"}, check_large_scores},
    {{"equal_scores", "all scores of a row equal"}, check_equal_scores},
    {{"dominant_key", "one key far above the others"}, check_dominant_key},
    {{"scales", "zero, negative, tiny and large softmax scales"}, check_scales},
    {{"huge_scales", "softmax scales of 1e8 and 1e30 and their negatives"}, check_huge_scales},
    {{"wide_heads", "large scores that are sums over a thousand dims and more"}, check_wide_heads},
    {{"rounding_model", "RMS error at most 1.5x that of rounding P to the input type"},
     check_rounding_model},
    {{"merge_chunks", "two halves of the keys merged are the whole"}, check_merge_chunks},
    {{"bad_arguments", "a fault is named and leaves outputs untouched"}, check_bad_arguments},
    {{"random", "batches with everything drawn at random"}, check_random},
};

std::string measured(const Verdict& verdict) {
  std::ostringstream text;
  text.precision(2);
  text << verdict.batches << " batches";
  const auto error = [&](const char* what, double share, DType dtype) {
    if (share > 0) {
      text << ", " << what << " error " << share << " of its bound (" << mla::name(dtype) << ")";
    }
  };
  error("out", verdict.out_error, verdict.out_error_dtype);
  error("lse", verdict.lse_error, verdict.lse_error_dtype);
  return text.str();
}

}  // namespace

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "invalid";
}

const std::vector<Property>& properties() {
  static const std::vector<Property> all = [] {
    std::vector<Property> list;
    for (const Entry& entry : kEntries) list.push_back(entry.property);
    return list;
  }();
  return all;
}

Verdict check(std::string_view property, const Subject& subject, const Options& options) {
  Verdict verdict;
  verdict.property = property;
  const auto* entry = std::find_if(std::begin(kEntries), std::end(kEntries),
                                   [&](const Entry& e) { return e.property.name == property; });
  if (entry == std::end(kEntries) || subject.implementation == nullptr) {
    verdict.outcome = Outcome::kSkipped;
    verdict.detail = subject.implementation == nullptr ? "nothing to run" : "no such property";
    return verdict;
  }
  const auto start = std::chrono::steady_clock::now();
  Trial trial(subject, options, &verdict);
  entry->check(trial);
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (verdict.outcome == Outcome::kPassed) {
    if (verdict.batches == 0) {
      trial.skip("every batch is beyond the backend's largest number of tokens");
    } else {
      verdict.detail = measured(verdict) + (verdict.detail.empty() ? "" : "; " + verdict.detail);
    }
  }
  return verdict;
}

bool check_all(const Subject& subject, const Options& options, const Sink& sink) {
  bool passed = true;
  for (const Entry& entry : kEntries) {
    const Verdict verdict = check(entry.property.name, subject, options);
    passed = passed && verdict.outcome != Outcome::kFailed;
    if (sink) sink(verdict);
  }
  return passed;
}

}  // namespace mla::conformance
