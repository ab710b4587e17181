// NaN and inf stay where they are seen: rows that cannot see them keep the bits they have without.
#include <cmath>
#include <limits>

#include "properties.h"

namespace mla::conformance {
namespace {

constexpr double kPoisons[] = {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity()};

void spoil(Tensor& tensor, std::int64_t r, std::int64_t i, double poison) {
  for (std::int64_t h = 0; h < tensor.spec().heads; ++h) {
    for (std::int64_t e = 0; e < tensor.spec().width; ++e) tensor.set(r, i, h, e, poison);
  }
}

BatchSpec isolation_spec(Trial& trial, DType dtype) {
  BatchSpec spec = trial.spec(dtype);
  spec.q_lengths = {40, 150, 70, 3};
  spec.k_lengths = {40, 200, 30, 90};
  return spec;
}

// A batch and its answer without poison, against which spoilt ones are held.
class Clean {
 public:
  Clean(Trial& trial, const BatchSpec& spec)
      : trial_(trial), batch_(spec), run_(trial.run(batch_)) {}

  // Rows for which `sees` is false must not change.
  template <class Spoil, class Sees>
  void compare(const std::string& what, Spoil&& spoil_it, Sees&& sees) const {
    if (trial_.failed() || !run_) return;
    Batch spoilt(batch_.spec());
    spoil_it(spoilt);
    const auto after = trial_.run(spoilt);
    if (!after) return;
    trial_.same_bits(batch_, *run_, *after, what,
                     [&](std::int64_t r, std::int64_t i) { return !sees(batch_, r, i); });
  }

 private:
  Trial& trial_;
  const Batch batch_;
  const std::optional<Run> run_;
};

}  // namespace

void check_masked_nan(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    const Clean clean(trial, isolation_spec(trial, dtype));
    for (double poison : kPoisons) {
      const std::vector<std::int64_t> keys = std::isnan(poison)
                                                 ? std::vector<std::int64_t>{0, 15, 64, 120, 199}
                                                 : std::vector<std::int64_t>{1, 198};
      for (std::int64_t key : keys) {
        for (bool in_k : {true, false}) {
          clean.compare(
              std::to_string(poison) + (in_k ? " in k " : " in v ") + std::to_string(key),
              [&](Batch& batch) { spoil(in_k ? batch.k() : batch.v(), 1, key, poison); },
              [&](const Batch& batch, std::int64_t r, std::int64_t i) {
                return r == 1 && batch.visible(r, i) > key;
              });
        }
      }
    }
  }
}

void check_query_nan(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    const Clean clean(trial, isolation_spec(trial, dtype));
    for (double poison : kPoisons) {
      for (std::int64_t query : {0, 77, 149}) {
        clean.compare(
            std::to_string(poison) + " in q " + std::to_string(query),
            [&](Batch& batch) { spoil(batch.q(), 1, query, poison); },
            [&](const Batch&, std::int64_t r, std::int64_t i) { return r == 1 && i == query; });
      }
    }
  }
}

// A whole request of NaN beside others, also where heads share k and v.
void check_request_nan(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    for (Layout layout : {Layout::kTokenMajor, Layout::kHeadMajor, Layout::kSharedHeads}) {
      for (bool causal : {true, false}) {
        BatchSpec spec = isolation_spec(trial, dtype);
        spec.layout = layout;
        spec.causal = causal;
        Clean(trial, spec)
            .compare(
                "a request of NaN",
                [&](Batch& batch) {
                  for (std::int64_t i = 0; i < 70; ++i) spoil(batch.q(), 2, i, kPoisons[0]);
                  for (std::int64_t j = 0; j < 30; ++j) {
                    spoil(batch.k(), 2, j, kPoisons[0]);
                    spoil(batch.v(), 2, j, kPoisons[0]);
                  }
                },
                [&](const Batch& batch, std::int64_t r, std::int64_t i) {
                  // Rows that see no key of the request stay empty.
                  return r == 2 && batch.visible(r, i) > 0;
                });
      }
    }
  }
}

}  // namespace mla::conformance
