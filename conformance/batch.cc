// Batches: their values, their arguments, and running them.
#include "batch.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <sstream>

#include "number.h"

namespace mla::conformance {
namespace {

// What out and lse hold before a run: NaN in rows, so that a row left unwritten shows, and another
// byte in the gaps, so that any write there shows.
constexpr std::byte kRowPaint{0xff};
constexpr std::byte kGapPaint{0xa5};

std::string join(const std::vector<std::int64_t>& numbers) {
  std::ostringstream text;
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < numbers.size() && i < kShown; ++i) {
    text << (i != 0 ? "," : "") << numbers[i];
  }
  if (numbers.size() > kShown) text << ",... (" << numbers.size() << ")";
  return text.str();
}

float scale_of(const BatchSpec& spec) {
  return spec.scale.value_or(1.0f / std::sqrt(static_cast<float>(spec.qk_dim)));
}

// Visits every row of a tensor once, shared heads only once.
template <class Visit>
void for_rows(const Tensor& tensor, Visit&& visit) {
  const TensorSpec& spec = tensor.spec();
  const bool shared = spec.layout == Layout::kSharedHeads || spec.layout == Layout::kLatent;
  for (std::size_t r = 0; r < spec.lengths.size(); ++r) {
    for (std::int64_t i = 0; i < spec.lengths[r]; ++i) {
      for (std::int64_t h = 0; h < (shared ? 1 : spec.heads); ++h) {
        visit(static_cast<std::int64_t>(r), i, h);
      }
    }
  }
}

// Near enough to a standard normal: four uniform parts of one draw.
double normal(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  double sum = 0;
  for (int part = 0; part < 4; ++part) sum += static_cast<double>(bits >> (16 * part) & 0xffff);
  return (sum / 65536.0 - 2.0) * 1.7320508;  // the variance of four uniform parts is 4/12
}

void fill_normal(Tensor& tensor, std::mt19937_64& random) {
  for_rows(tensor, [&](std::int64_t r, std::int64_t i, std::int64_t h) {
    for (std::int64_t e = 0; e < tensor.spec().width; ++e) tensor.set(r, i, h, e, normal(random));
  });
}

// Scores that every type holds exactly: q of whole numbers, k of eighths (halves for one or two
// elements), so that s = q k has no rounding and reaches 1e4.
void fill_large(Tensor& q, Tensor& k, std::mt19937_64& random) {
  const std::int64_t dim = q.spec().width;
  const double a = std::floor(std::sqrt(1e4 / static_cast<double>(dim)));
  const double nudge = a < 32 ? 0.125 : 0.5;
  std::vector<double> sign(static_cast<std::size_t>(dim));
  for (double& s : sign) s = random() % 2 == 0 ? 1.0 : -1.0;
  const auto along = [&](std::int64_t e) { return a * sign[static_cast<std::size_t>(e)]; };
  for_rows(q, [&](std::int64_t r, std::int64_t i, std::int64_t h) {
    for (std::int64_t e = 0; e < dim; ++e) {
      q.set(r, i, h, e, random() % 64 == 0 ? -along(e) : along(e));
    }
  });
  for_rows(k, [&](std::int64_t r, std::int64_t i, std::int64_t h) {
    const std::uint64_t kind = random() % 10;
    for (std::int64_t e = 0; e < dim; ++e) {
      double value = random() % 2 == 0 ? a : -a;
      if (kind < 4) value = along(e);
      if (kind == 9) value = -along(e);
      k.set(r, i, h, e, value);
    }
    const auto e = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(dim));
    k.set(r, i, h, e, k.get(r, i, h, e) + nudge * static_cast<double>(random() % 4));
  });
}

void fill_equal(Tensor& k, std::mt19937_64& random) {
  std::vector<double> row(static_cast<std::size_t>(k.spec().width));
  for (double& x : row) x = normal(random);
  for_rows(k, [&](std::int64_t r, std::int64_t i, std::int64_t h) {
    for (std::size_t e = 0; e < row.size(); ++e) {
      k.set(r, i, h, static_cast<std::int64_t>(e), row[e]);
    }
  });
}

// q near one direction; a key of each request lies along it and scores about 30.
void fill_dominant(Tensor& q, Tensor& k, double scale, std::mt19937_64& random) {
  const std::int64_t dim = q.spec().width;
  std::vector<std::int64_t> chosen;
  for (std::int64_t n : k.spec().lengths) {
    const auto place = n == 0 ? 0 : random() % static_cast<std::uint64_t>(n);
    chosen.push_back(static_cast<std::int64_t>(place));
  }
  for_rows(q, [&](std::int64_t r, std::int64_t i, std::int64_t h) {
    for (std::int64_t e = 0; e < dim; ++e) q.set(r, i, h, e, 1.0 + 0.1 * normal(random));
  });
  const double height = 30.0 / (scale * static_cast<double>(dim));
  for_rows(k, [&](std::int64_t r, std::int64_t i, std::int64_t h) {
    const bool peak = chosen[static_cast<std::size_t>(r)] == i;
    for (std::int64_t e = 0; e < dim; ++e) {
      k.set(r, i, h, e, peak ? height : 0.3 * normal(random));
    }
  });
}

std::vector<std::int32_t> narrow(const std::vector<std::int64_t>& from) {
  std::vector<std::int32_t> to;
  for (std::int64_t x : from) to.push_back(static_cast<std::int32_t>(x));
  return to;
}

std::string intrusion_of(const Tensor& out, const Tensor& lse) {
  if (!out.gaps_are(kGapPaint)) return "out was written outside its rows";
  if (!lse.gaps_are(kGapPaint)) return "lse was written outside its rows";
  return "";
}

}  // namespace

std::string_view name(Values values) {
  switch (values) {
    case Values::kNormal:
      return "normal";
    case Values::kLarge:
      return "large";
    case Values::kEqual:
      return "equal";
    case Values::kDominant:
      return "dominant";
  }
  return "invalid";
}

std::string to_string(const BatchSpec& spec) {
  std::ostringstream text;
  text << mla::name(spec.dtype) << "->" << mla::name(spec.out_dtype) << " H=" << spec.heads
       << " Dq=" << spec.qk_dim << " Dv=" << spec.v_dim << " q=[" << join(spec.q_lengths) << "] k=["
       << join(spec.k_lengths) << "] " << (spec.causal ? "causal" : "all keys");
  if (!spec.causal_offsets.empty()) text << " offsets=[" << join(spec.causal_offsets) << "]";
  text << " " << name(spec.layout) << " " << name(spec.values) << " scale=" << scale_of(spec)
       << " seed=" << spec.seed;
  return text.str();
}

Batch::Batch(BatchSpec spec) : spec_(std::move(spec)) {
  for (std::int64_t length : spec_.q_lengths) cu_q_.push_back(cu_q_.back() + length);
  for (std::int64_t length : spec_.k_lengths) cu_k_.push_back(cu_k_.back() + length);
  cu_q32_ = narrow(cu_q_);
  cu_k32_ = narrow(cu_k_);
  const bool shared = spec_.layout == Layout::kSharedHeads || spec_.layout == Layout::kLatent ||
                      spec_.layout == Layout::kKvProjection;
  const Layout q_layout = shared ? Layout::kTokenMajor : spec_.layout;
  q_ = Tensor(
      {spec_.dtype, spec_.q_lengths, spec_.heads, spec_.qk_dim, q_layout, spec_.place, false});
  k_ = Tensor({spec_.dtype, spec_.k_lengths, spec_.heads, spec_.qk_dim, spec_.layout, spec_.place});
  v_ = spec_.layout == Layout::kLatent ? k_.narrowed(spec_.v_dim)
                                       : Tensor({spec_.dtype, spec_.k_lengths, spec_.heads,
                                                 spec_.v_dim, spec_.layout, spec_.place, true});
  fill();
}

void Batch::fill() {
  std::mt19937_64 random(spec_.seed);
  if (spec_.layout != Layout::kLatent) fill_normal(v_, random);
  switch (spec_.values) {
    case Values::kNormal:
      fill_normal(q_, random);
      fill_normal(k_, random);
      break;
    case Values::kLarge:
      fill_large(q_, k_, random);
      break;
    case Values::kEqual:
      fill_normal(q_, random);
      fill_equal(k_, random);
      break;
    case Values::kDominant:
      fill_dominant(q_, k_, scale_of(spec_), random);
      break;
  }
}

std::int64_t Batch::visible(std::int64_t r, std::int64_t i) const {
  const auto at = static_cast<std::size_t>(r);
  const std::int64_t n = spec_.k_lengths[at];
  if (!spec_.causal) return n;
  const std::int64_t m = spec_.q_lengths[at];
  const std::int64_t offset = spec_.causal_offsets.empty() ? n - m : spec_.causal_offsets[at];
  if (offset >= n) return n;
  if (offset <= -m) return 0;
  return std::clamp<std::int64_t>(i + offset + 1, 0, n);
}

std::int64_t Batch::visible_pairs() const {
  std::int64_t pairs = 0;
  for (std::int64_t r = 0; r < requests(); ++r) {
    const std::int64_t m = spec_.q_lengths[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < m; ++i) pairs += visible(r, i);
  }
  return pairs;
}

attention::Args Batch::args(const Tensor& out, const Tensor& lse) const {
  attention::Args args;
  args.num_requests = requests();
  args.num_heads = spec_.heads;
  args.total_q = total_q();
  args.total_k = total_k();
  args.qk_head_dim = spec_.qk_dim;
  args.v_head_dim = spec_.v_dim;
  args.dtype = spec_.dtype;
  args.out_dtype = spec_.out_dtype;
  args.q = q_.rows();
  args.k = k_.rows();
  args.v = v_.rows();
  args.out = out.writable();
  if (spec_.with_lse) {
    args.lse = static_cast<float*>(lse.writable().data);
    args.lse_head_stride = spec_.lse_gap != 0 ? lse.rows().token_stride : 0;
  }
  args.cu_seqlens_q = spec_.wide_offsets ? attention::CuSeqlens(cu_q_.data())
                                         : attention::CuSeqlens(cu_q32_.data());
  args.cu_seqlens_k = spec_.wide_offsets ? attention::CuSeqlens(cu_k_.data())
                                         : attention::CuSeqlens(cu_k32_.data());
  args.causal = spec_.causal;
  args.causal_offsets = spec_.causal_offsets.empty() ? nullptr : spec_.causal_offsets.data();
  args.scale = scale_of(spec_);
  return args;
}

Tensor Batch::new_out() const {
  TensorSpec spec = q_.spec();
  spec.dtype = spec_.out_dtype;
  spec.width = spec_.v_dim;
  Tensor out(spec);
  out.paint(kRowPaint, kGapPaint);
  return out;
}

Tensor Batch::new_lse() const {
  // A head is a token of one request, its row all T values; the gap is that of a wider row.
  TensorSpec spec;
  spec.lengths = {spec_.heads};
  spec.width = total_q() + spec_.lse_gap;
  spec.place = spec_.place;
  Tensor lse = Tensor(spec).narrowed(total_q());
  lse.paint(kRowPaint, kGapPaint);
  return lse;
}

Run Batch::run(const attention::Implementation& implementation,
               const attention::RunOptions& options) const {
  Run run{{}, new_out(), new_lse(), ""};
  run.status = attention::attend(implementation, args(run.out, run.lse), options);
  run.intrusion = intrusion_of(run.out, run.lse);
  return run;
}

Run Batch::run_alone(const attention::Implementation& implementation, std::int64_t r) const {
  const auto at = static_cast<std::size_t>(r);
  const std::int64_t m = spec_.q_lengths[at];
  const std::int64_t n = spec_.k_lengths[at];
  TensorSpec out_spec{spec_.out_dtype, {m}, spec_.heads, spec_.v_dim};
  TensorSpec lse_spec{DType::kFloat32, {spec_.heads}, 1, m};
  Run run{{}, Tensor(out_spec), Tensor(lse_spec), ""};
  run.out.paint(kRowPaint, kGapPaint);
  run.lse.paint(kRowPaint, kGapPaint);
  attention::Args args = this->args(run.out, run.lse);
  const std::int64_t cu_q[] = {0, m};
  const std::int64_t cu_k[] = {0, n};
  args.num_requests = 1;
  args.total_q = m;
  args.total_k = n;
  args.cu_seqlens_q = attention::CuSeqlens(cu_q);
  args.cu_seqlens_k = attention::CuSeqlens(cu_k);
  args.lse_head_stride = 0;
  if (args.causal_offsets != nullptr) args.causal_offsets += r;
  const auto start = [&](const Tensor& tensor, attention::ConstRows& rows) {
    rows.data = tensor.row(r, 0, 0);
    rows.request_offsets = nullptr;
  };
  start(q_, args.q);
  start(k_, args.k);
  start(v_, args.v);
  run.status = attention::attend(implementation, args);
  run.intrusion = intrusion_of(run.out, run.lse);
  return run;
}

Reference Batch::reference() const {
  Reference reference;
  reference.out.resize(static_cast<std::size_t>(total_q() * spec_.heads * spec_.v_dim));
  reference.lse.resize(static_cast<std::size_t>(total_q() * spec_.heads));
  attention::Args args = this->args(q_, q_);  // outputs are not used
  const Status status = attention::reference(args, reference.out.data(), reference.lse.data());
  if (!status.ok()) reference.out.clear();
  return reference;
}

double Batch::rms_v() const {
  double sum = 0;
  std::int64_t count = 0;
  for_rows(v_, [&](std::int64_t r, std::int64_t i, std::int64_t h) {
    for (std::int64_t e = 0; e < spec_.v_dim; ++e) {
      const double value = v_.get(r, i, h, e);
      if (!std::isfinite(value)) continue;
      sum += value * value;
      ++count;
    }
  });
  return count == 0 ? 0.0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace mla::conformance
