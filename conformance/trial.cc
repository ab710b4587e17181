// Running a property's batches and measuring them.
#include "trial.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "number.h"

namespace mla::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string place(std::int64_t r, std::int64_t i, std::int64_t h) {
  std::ostringstream text;
  text << "request " << r << " query " << i << " head " << h;
  return text.str();
}

// |got - wanted| as a share of the bound; infinite for a NaN and for a missed infinity.
double share(double got, double wanted, double bound) {
  if (got == wanted) return 0.0;
  const double error = std::fabs(got - wanted);
  return std::isnan(error) || std::isinf(error) ? kInfinity : error / bound;
}

void raise(double& worst, DType& where, double error, DType dtype) {
  if (!(error > worst)) return;
  worst = error;
  where = dtype;
}

}  // namespace

double out_bound(const BatchSpec& spec, double reference, double rms_v) {
  if (spec.dtype == DType::kFloat32) return 2e-5 * (1 + std::fabs(reference));
  // A tenth of the error of P in bfloat16: float16 has three bits more.
  const double of_p = (spec.dtype == DType::kBFloat16 ? 1e-2 : 2e-3) * rms_v;
  return ulp(spec.out_dtype, round_to(spec.out_dtype, reference)) + of_p;
}

double lse_bound(const BatchSpec& spec, double reference) {
  // From about 10 on a float's own spacing, and that of the scores, is what counts.
  const double absolute = spec.dtype == DType::kFloat32 ? 1e-5 : 1e-3;
  return std::max(absolute, std::fabs(reference) * 0x1p-20);
}

std::vector<DType> Trial::dtypes() const {
  if (!subject_.dtypes.empty()) return subject_.dtypes;
  return {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
}

Dims Trial::dims_or(Dims otherwise) const {
  if (any_dims()) return otherwise;
  return {subject_.dims.front().qk_head_dim(), subject_.dims.front().v_head_dim};
}

std::vector<Dims> Trial::all_dims_or(std::vector<Dims> otherwise) const {
  if (any_dims()) return otherwise;
  std::vector<Dims> all;
  for (const MlaDims& dims : subject_.dims) all.push_back({dims.qk_head_dim(), dims.v_head_dim});
  return all;
}

BatchSpec Trial::spec(DType dtype) {
  const Dims dims = dims_or({40, 24});
  BatchSpec spec;
  spec.dtype = spec.out_dtype = dtype;
  spec.qk_dim = dims.qk;
  spec.v_dim = dims.v;
  spec.seed = next_seed();
  return spec;
}

BatchSpec Trial::model_spec(DType dtype) {
  BatchSpec spec = this->spec(dtype);
  const Dims dims = dims_or({192, 128});
  spec.qk_dim = dims.qk;
  spec.v_dim = dims.v;
  return spec;
}

std::uint64_t Trial::next_seed() { return options_.seed * 1000003 + ++seeds_; }

void Trial::fault(const BatchSpec& spec, const std::string& what) {
  if (failed()) return;
  verdict_.outcome = Outcome::kFailed;
  verdict_.detail = what + " [" + to_string(spec) + "]";
}

void Trial::skip(const std::string& reason) {
  if (failed()) return;
  verdict_.outcome = Outcome::kSkipped;
  verdict_.detail = reason;
}

void Trial::count() { ++verdict_.batches; }

void Trial::note(const std::string& what) {
  if (failed()) return;
  verdict_.detail += (verdict_.detail.empty() ? "" : "; ") + what;
}

bool Trial::too_long(const Batch& batch) const {
  const std::int64_t most = implementation().traits().max_tokens;
  return most > 0 && (batch.total_q() > most || batch.total_k() > most);
}

std::optional<Run> Trial::accept(const Batch& batch, Run run) {
  if (!run.status.ok()) {
    fault(batch.spec(), "refused: " + run.status.error().message);
    return std::nullopt;
  }
  ++verdict_.batches;
  if (run.intrusion.empty()) return run;
  fault(batch.spec(), run.intrusion);
  return std::nullopt;
}

std::optional<Run> Trial::run(const Batch& batch, const attention::RunOptions& options) {
  if (failed() || too_long(batch)) return std::nullopt;
  return accept(batch, batch.run(implementation(), options));
}

std::optional<Run> Trial::run_alone(const Batch& batch, std::int64_t r) {
  if (failed()) return std::nullopt;
  return accept(batch, batch.run_alone(implementation(), r));
}

void Trial::compare(const Batch& batch, const Run& run) {
  const BatchSpec& spec = batch.spec();
  const Reference reference = batch.reference();
  const double rms_v = batch.rms_v();
  const auto differs = [&](std::string what, const std::string& at, double got, double wanted) {
    std::ostringstream text;
    text << what << " " << got << ", wanted " << wanted << " (" << at << ")";
    fault(spec, text.str());
  };
  for (std::int64_t r = 0; r < batch.requests(); ++r) {
    for (std::int64_t i = 0; i < spec.q_lengths[static_cast<std::size_t>(r)]; ++i) {
      const std::int64_t t = batch.q_begin(r) + i;
      const bool empty = batch.visible(r, i) == 0;
      for (std::int64_t h = 0; h < spec.heads; ++h) {
        for (std::int64_t e = 0; e < spec.v_dim; ++e) {
          const double wanted =
              reference.out[static_cast<std::size_t>((t * spec.heads + h) * spec.v_dim + e)];
          const double got = run.out.get(r, i, h, e);
          const double rounded = round_to(spec.out_dtype, wanted);
          const double error = empty ? (got == 0.0 ? 0.0 : kInfinity)
                                     : share(got, rounded, out_bound(spec, wanted, rms_v));
          raise(verdict_.out_error, verdict_.out_error_dtype, error, spec.dtype);
          if (error > 1) {
            return differs("out", place(r, i, h) + " element " + std::to_string(e), got, wanted);
          }
        }
        if (!spec.with_lse) continue;
        const double wanted = reference.lse[static_cast<std::size_t>(h * batch.total_q() + t)];
        const double got = run.lse_at(h, t);
        const double error = share(got, wanted, lse_bound(spec, wanted));
        raise(verdict_.lse_error, verdict_.lse_error_dtype, error, spec.dtype);
        if (error > 1) return differs("lse", place(r, i, h), got, wanted);
      }
    }
  }
}

void Trial::check(const Batch& batch) {
  if (const std::optional<Run> result = run(batch)) compare(batch, *result);
}

bool Trial::same_row(const Batch& batch, const Run& run, const Run& other, std::int64_t r,
                     std::int64_t i) const {
  const auto bytes = static_cast<std::size_t>(run.out.row_bytes());
  for (std::int64_t h = 0; h < batch.spec().heads; ++h) {
    if (std::memcmp(run.out.row(r, i, h), other.out.row(r, i, h), bytes) != 0) return false;
    if (!batch.spec().with_lse) continue;
    const std::int64_t t = batch.q_begin(r) + i;
    const auto at = static_cast<std::ptrdiff_t>(t * static_cast<std::int64_t>(sizeof(float)));
    if (std::memcmp(run.lse.row(0, h, 0) + at, other.lse.row(0, h, 0) + at, sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

void Trial::same_request(const Batch& batch, const Run& together, const Run& alone,
                         std::int64_t r) {
  const BatchSpec& spec = batch.spec();
  const auto bytes = static_cast<std::size_t>(together.out.row_bytes());
  const std::int64_t begin = batch.q_begin(r);
  for (std::int64_t i = 0; i < spec.q_lengths[static_cast<std::size_t>(r)]; ++i) {
    for (std::int64_t h = 0; h < spec.heads; ++h) {
      const bool same =
          std::memcmp(together.out.row(r, i, h), alone.out.row(0, i, h), bytes) == 0 &&
          (!spec.with_lse || std::memcmp(together.lse.row(0, h, 0) + 4 * (begin + i),
                                         alone.lse.row(0, h, 0) + 4 * i, 4) == 0);
      if (same) continue;
      return fault(spec, "alone and in the batch differ: " + place(r, i, h));
    }
  }
}

}  // namespace mla::conformance
