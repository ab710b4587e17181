// Properties of extreme scores, and the error a row may make.
#include <cmath>
#include <sstream>

#include "number.h"
#include "properties.h"

namespace mla::conformance {
namespace {

void check_values(Trial& trial, Values values, std::optional<float> scale) {
  for (DType dtype : trial.dtypes()) {
    for (bool model : {false, true}) {
      BatchSpec spec = model ? trial.model_spec(dtype) : trial.spec(dtype);
      spec.values = values;
      spec.scale = scale;
      spec.q_lengths = {100, 7, 40};
      spec.k_lengths = {100, 300, 20};
      trial.check(spec);
    }
  }
}

// Sums over all elements of a batch.
struct Squares {
  double of_subject = 0;
  double of_model = 0;
};

// What the contract measures by: scores, softmax and sums in fp32, P rounded to the input's type.
class RoundingModel {
 public:
  explicit RoundingModel(const Batch& batch) : batch_(batch), spec_(batch.spec()) {}

  // The row's Dv elements, rounded to the output's type.
  std::vector<double> row(std::int64_t r, std::int64_t i, std::int64_t h, float scale) const {
    const std::int64_t n = batch_.visible(r, i);
    std::vector<float> p(static_cast<std::size_t>(n));
    float m = -INFINITY;
    for (std::int64_t j = 0; j < n; ++j) {
      float s = 0;
      for (std::int64_t d = 0; d < spec_.qk_dim; ++d) {
        s += static_cast<float>(batch_.q().get(r, i, h, d)) *
             static_cast<float>(batch_.k().get(r, j, h, d));
      }
      p[static_cast<std::size_t>(j)] = s * scale;
      m = std::max(m, s * scale);
    }
    std::vector<float> o(static_cast<std::size_t>(spec_.v_dim), 0.0f);
    float sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const float weight = std::exp(p[static_cast<std::size_t>(j)] - m);
      sum += weight;
      const auto rounded = static_cast<float>(round_to(spec_.dtype, weight));
      for (std::int64_t e = 0; e < spec_.v_dim; ++e) {
        o[static_cast<std::size_t>(e)] += rounded * static_cast<float>(batch_.v().get(r, j, h, e));
      }
    }
    std::vector<double> out;
    for (float x : o) out.push_back(n == 0 ? 0.0 : round_to(spec_.out_dtype, x / sum));
    return out;
  }

 private:
  const Batch& batch_;
  const BatchSpec& spec_;
};

Squares measure(const Batch& batch, const Run& run, float scale) {
  const BatchSpec& spec = batch.spec();
  const Reference reference = batch.reference();
  const RoundingModel model(batch);
  Squares squares;
  for (std::int64_t r = 0; r < batch.requests(); ++r) {
    for (std::int64_t i = 0; i < spec.q_lengths[static_cast<std::size_t>(r)]; ++i) {
      for (std::int64_t h = 0; h < spec.heads; ++h) {
        const std::vector<double> row = model.row(r, i, h, scale);
        for (std::int64_t e = 0; e < spec.v_dim; ++e) {
          const std::int64_t at = ((batch.q_begin(r) + i) * spec.heads + h) * spec.v_dim + e;
          const double wanted = reference.out[static_cast<std::size_t>(at)];
          const double subject = run.out.get(r, i, h, e) - wanted;
          const double of_model = row[static_cast<std::size_t>(e)] - wanted;
          squares.of_subject += subject * subject;
          squares.of_model += of_model * of_model;
        }
      }
    }
  }
  return squares;
}

}  // namespace

void check_large_scores(Trial& trial) { check_values(trial, Values::kLarge, 1.0f); }

void check_equal_scores(Trial& trial) { check_values(trial, Values::kEqual, std::nullopt); }

void check_dominant_key(Trial& trial) { check_values(trial, Values::kDominant, std::nullopt); }

void check_scales(Trial& trial) {
  for (float scale : {0.0f, -0.0f, -0.15f, 1.0f, 1e-30f, 0.007f}) {
    check_values(trial, Values::kNormal, scale);
  }
}

// Scores that float32 holds exactly: the keys of the highest one share the row, whatever the scale.
void check_huge_scales(Trial& trial) {
  for (float scale : {1e8f, -1e8f, 1e30f, -1e30f}) check_values(trial, Values::kLarge, scale);
}

// Scores of up to 200: what float32 loses in a plain sum over so many dims is more than the bound.
void check_wide_heads(Trial& trial) {
  if (!trial.any_dims()) return trial.skip("its head dims are fixed");
  for (DType dtype : trial.dtypes()) {
    for (const Dims& dims : {Dims{1024, 40}, Dims{2048, 17}, Dims{999, 128}}) {
      BatchSpec spec = trial.spec(dtype);
      spec.qk_dim = dims.qk;
      spec.v_dim = dims.v;
      spec.scale = 1.0f;
      spec.q_lengths = {70, 7};
      spec.k_lengths = {70, 200};
      trial.check(spec);
    }
  }
}

void check_rounding_model(Trial& trial) {
  constexpr double kMost = 1.5;
  for (DType dtype : trial.dtypes()) {
    if (dtype == DType::kFloat32) continue;  // its bound is that of every other property
    for (bool wide : {false, true}) {
      BatchSpec spec = trial.model_spec(dtype);
      spec.heads = 1;
      spec.q_lengths = {40, 16};
      spec.k_lengths = {40, 400};
      if (wide) spec.out_dtype = DType::kFloat32;
      const Batch batch(spec);
      const auto run = trial.run(batch);
      if (!run) return;
      const float scale = 1.0f / std::sqrt(static_cast<float>(spec.qk_dim));
      const Squares squares = measure(batch, *run, scale);
      const double ratio = std::sqrt(squares.of_subject / squares.of_model);
      std::ostringstream text;
      text << "RMS error " << ratio << " of the model's, " << mla::name(dtype) << " -> "
           << mla::name(spec.out_dtype);
      if (!(ratio <= kMost)) return trial.fault(spec, text.str());
      trial.note(text.str());
    }
  }
}

}  // namespace mla::conformance
