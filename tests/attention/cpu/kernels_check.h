// Checks of a table of kernels against double loops over the same inputs, for any table: panels,
// steps with and without masks, finish, projection.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attention/cpu/isa/isa.h"
#include "core/half.h"
#include "mla/platform.h"

namespace mla::attention::cpu {

// Memory aligned as kernels want it, filled with a NaN pattern.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes)
      : bytes_((bytes + 63) / 64 * 64 + 64),
        data_(
            static_cast<unsigned char*>(std::aligned_alloc(64, static_cast<std::size_t>(bytes_)))) {
    for (std::int64_t i = 0; i < bytes_; ++i) data_.get()[i] = 0xff;
  }
  void* get() { return data_.get(); }
  // Whether the bytes behind the ones asked for are as they were.
  bool intact(std::int64_t bytes) const {
    for (std::int64_t i = bytes; i < bytes_; ++i) {
      if (data_.get()[i] != 0xff) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  std::int64_t bytes_;
  std::unique_ptr<unsigned char, Free> data_;
};

// A matrix in an element type; rows lie stride elements apart, NaN between them.
class ElementMatrix {
 public:
  ElementMatrix(DType dtype, std::int64_t rows, std::int64_t columns)
      : dtype_(dtype), rows_(rows), columns_(columns), stride_(columns + 3) {
    bytes_.assign(static_cast<std::size_t>((rows * stride_ + 1) * size_of(dtype)), 0xff);
    for (std::int64_t r = 0; r < rows; ++r) rows_at_.push_back(at(r, 0));
  }
  void set(std::int64_t r, std::int64_t c, float value) {
    switch (dtype_) {
      case DType::kFloat16:
        return from_float(value, static_cast<Float16*>(at(r, c)));
      case DType::kBFloat16:
        return from_float(value, static_cast<BFloat16*>(at(r, c)));
      default:
        return from_float(value, static_cast<float*>(at(r, c)));
    }
  }
  double get(std::int64_t r, std::int64_t c) const {
    const void* const p = const_cast<ElementMatrix*>(this)->at(r, c);
    switch (dtype_) {
      case DType::kFloat16:
        return to_float(*static_cast<const Float16*>(p));
      case DType::kBFloat16:
        return to_float(*static_cast<const BFloat16*>(p));
      default:
        return to_float(*static_cast<const float*>(p));
    }
  }
  void fill(std::mt19937_64& random, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < columns_; ++c) set(r, c, normal(random));
    }
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t stride() const { return stride_; }
  const void* data() const { return bytes_.data(); }
  const void* const* row_pointers(std::int64_t first = 0) const { return rows_at_.data() + first; }
  void* const* out_pointers() { return rows_at_.data(); }

 private:
  void* at(std::int64_t r, std::int64_t c) {
    return bytes_.data() + (r * stride_ + c) * size_of(dtype_);
  }
  DType dtype_;
  std::int64_t rows_, columns_, stride_;
  std::vector<unsigned char> bytes_;
  std::vector<void*> rows_at_;
};

// What attention over q, k, v gives, row r seeing the first seen[r] keys.
struct Attended {
  std::vector<double> out;  // [rows, Dv]
  std::vector<double> lse;
};

inline Attended attend_in_double(const ElementMatrix& q, const ElementMatrix& k,
                                 const ElementMatrix& v, const Shape& shape, double scale,
                                 const std::vector<std::int64_t>& seen) {
  Attended to;
  for (std::int64_t r = 0; r < q.rows(); ++r) {
    std::vector<double> s;
    double max = -INFINITY;
    for (std::int64_t j = 0; j < seen[static_cast<std::size_t>(r)]; ++j) {
      double dot = 0;
      for (std::int64_t d = 0; d < shape.qk_head_dim; ++d) dot += q.get(r, d) * k.get(j, d);
      s.push_back(dot * scale);
      max = std::fmax(max, s.back());
    }
    double sum = 0;
    std::vector<double> out(static_cast<std::size_t>(shape.v_head_dim), 0.0);
    for (std::size_t j = 0; j < s.size(); ++j) {
      const double p = std::exp(s[j] - max);
      sum += p;
      for (std::size_t d = 0; d < out.size(); ++d) {
        out[d] += p * v.get(static_cast<std::int64_t>(j), static_cast<std::int64_t>(d));
      }
    }
    for (double& x : out) to.out.push_back(sum == 0 ? 0 : x / sum);
    to.lse.push_back(sum == 0 ? -INFINITY : max + std::log(sum));
  }
  return to;
}

struct KernelCase {
  DType dtype = DType::kFloat32;
  std::int64_t qk_head_dim = 192;
  std::int64_t v_head_dim = 128;
  std::int64_t rows = 7;
  std::int64_t keys = 33;
  bool causal = false;
  float scale = 0.07f;
};

inline std::string to_string(const KernelCase& c) {
  return std::string(name(c.dtype)) + " Dq " + std::to_string(c.qk_head_dim) + " Dv " +
         std::to_string(c.v_head_dim) + " rows " + std::to_string(c.rows) + " keys " +
         std::to_string(c.keys) + (c.causal ? " causal" : "");
}

// Tolerances of attention.md section 1 for P in fp32, and for P and projections in bf16.
struct Tolerance {
  double out = 2e-5;
  double lse = 1e-5;
};
inline Tolerance tolerance_of(bool rounds_to_bf16) {
  return rounds_to_bf16 ? Tolerance{1e-2, 1e-3} : Tolerance{};
}

inline void expect_attended(const Attended& want, const ElementMatrix& out,
                            const std::vector<float>& lse, const Shape& shape,
                            const Tolerance& tolerance) {
  for (std::int64_t r = 0; r < out.rows(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (std::isinf(want.lse[i])) {
      ASSERT_EQ(lse[i], -INFINITY) << "row " << r;
    } else {
      ASSERT_NEAR(lse[i], want.lse[i], tolerance.lse * (1 + std::fabs(want.lse[i]))) << "row " << r;
    }
    for (std::int64_t d = 0; d < shape.v_head_dim; ++d) {
      const double ref = want.out[static_cast<std::size_t>(r * shape.v_head_dim + d)];
      ASSERT_NEAR(out.get(r, d), ref, tolerance.out * (1 + std::fabs(ref)))
          << "row " << r << " column " << d;
    }
  }
}

// Everything a table does to one query block, panel after panel.
class BlockRun {
 public:
  BlockRun(const Kernels& kernels, const Shape& shape, float scale, const ElementMatrix& q)
      : kernels_(kernels),
        shape_(shape),
        scale_(scale),
        rows_(q.rows()),
        blocking_(kernels.blocking(shape)),
        queries_(blocking_.query_bytes),
        state_(blocking_.state_bytes),
        scratch_(blocking_.scratch_bytes),
        panel_(blocking_.panel_bytes) {
    kernels.pack_queries(shape, q.row_pointers(), rows_, queries_.get());
    kernels.begin(shape, rows_, state_.get());
  }
  std::int64_t block_k() const { return blocking_.block_k; }
  void* panel() { return panel_.get(); }
  // Adds the panel, which holds keys [first, first + count); row r sees seen[r] keys of all.
  void add(std::int64_t first, std::int64_t count, bool finite,
           const std::vector<std::int64_t>& seen) {
    Step step;
    step.queries = queries_.get();
    step.panel = panel_.get();
    step.rows = rows_;
    step.keys = std::min(count, seen.back() - first);
    if (step.keys <= 0) return;
    std::vector<std::int32_t> visible;
    for (std::int64_t n : seen) {
      visible.push_back(
          static_cast<std::int32_t>(std::clamp<std::int64_t>(n - first, 0, step.keys)));
    }
    step.visible = visible.front() < step.keys ? visible.data() : nullptr;
    step.panel_finite = finite;
    ThreadState saved;
    if (kernels_.enter_thread != nullptr) kernels_.enter_thread(&saved);
    kernels_.step(shape_, scale_, step, state_.get(), scratch_.get());
    if (kernels_.leave_thread != nullptr) kernels_.leave_thread(&saved);
  }
  void finish(ElementMatrix& out, std::vector<float>& lse) {
    std::vector<float*> lse_rows;
    for (float& x : lse) lse_rows.push_back(&x);
    kernels_.finish(shape_, rows_, state_.get(), DType::kFloat32, out.out_pointers(),
                    lse_rows.data());
    EXPECT_TRUE(queries_.intact(blocking_.query_bytes));
    EXPECT_TRUE(state_.intact(blocking_.state_bytes));
    EXPECT_TRUE(scratch_.intact(blocking_.scratch_bytes));
    EXPECT_TRUE(panel_.intact(blocking_.panel_bytes));
  }

 private:
  const Kernels& kernels_;
  Shape shape_;
  float scale_;
  std::int64_t rows_;
  Blocking blocking_;
  Buffer queries_, state_, scratch_, panel_;
};

// pack_queries, pack_panel, begin, step, finish.
inline void check_attention(const Kernels& kernels, const KernelCase& c, bool rounds_to_bf16) {
  SCOPED_TRACE(std::string(kernels.name) + ": " + to_string(c));
  const Shape shape = {c.dtype, c.qk_head_dim, c.v_head_dim};
  ASSERT_TRUE(kernels.supports(shape));
  std::mt19937_64 random(static_cast<std::uint64_t>(c.rows * 1000 + c.keys));
  ElementMatrix q(c.dtype, c.rows, c.qk_head_dim), k(c.dtype, c.keys, c.qk_head_dim),
      v(c.dtype, c.keys, c.v_head_dim), out(DType::kFloat32, c.rows, c.v_head_dim);
  for (ElementMatrix* m : {&q, &k, &v}) m->fill(random);
  std::vector<std::int64_t> seen;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    seen.push_back(c.causal ? std::clamp<std::int64_t>(r + 1 + c.keys - c.rows, 0, c.keys)
                            : c.keys);
  }
  BlockRun run(kernels, shape, c.scale, q);
  for (std::int64_t first = 0; first < c.keys; first += run.block_k()) {
    const std::int64_t count = std::min(run.block_k(), c.keys - first);
    const bool finite =
        kernels.pack_panel(shape, k.row_pointers(first), v.row_pointers(first), count, run.panel());
    EXPECT_TRUE(finite);
    run.add(first, count, finite, seen);
  }
  std::vector<float> lse(static_cast<std::size_t>(c.rows));
  run.finish(out, lse);
  expect_attended(attend_in_double(q, k, v, shape, c.scale, seen), out, lse, shape,
                  tolerance_of(rounds_to_bf16));
}

struct ProjectionCase {
  DType dtype = DType::kFloat32;
  std::int64_t nope = 128;
  std::int64_t rope = 64;
  std::int64_t v_head_dim = 128;
  std::int64_t kv_lora_rank = 512;
  std::int64_t keys = 33;
};

// pack_weights, pack_latents, project: attention over the panel is attention over K = [C W_UK^T |
// rope] and V = C W_UV^T.
inline void check_projection(const Kernels& kernels, const ProjectionCase& c, bool rounds_to_bf16) {
  SCOPED_TRACE(std::string(kernels.name) + ": projection, " + std::string(name(c.dtype)) +
               " nope " + std::to_string(c.nope) + " rope " + std::to_string(c.rope) + " Dv " +
               std::to_string(c.v_head_dim) + " L " + std::to_string(c.kv_lora_rank) + " keys " +
               std::to_string(c.keys));
  const std::int64_t rank = c.kv_lora_rank;
  ProjectionShape shape;
  shape.shape = {c.dtype, c.nope + c.rope, c.v_head_dim};
  shape.qk_nope_head_dim = c.nope;
  shape.kv_lora_rank = rank;
  shape.latent_dtype = c.dtype;
  std::mt19937_64 random(static_cast<std::uint64_t>(c.keys));
  ElementMatrix w_uk(c.dtype, c.nope, rank), w_uv(c.dtype, c.v_head_dim, rank),
      latents(c.dtype, c.keys, rank), rope(c.dtype, c.keys, c.rope), q(c.dtype, 5, c.nope + c.rope);
  const float shrink = 1 / std::sqrt(static_cast<float>(rank));
  for (ElementMatrix* m : {&w_uk, &w_uv}) m->fill(random, shrink);
  for (ElementMatrix* m : {&latents, &rope, &q}) m->fill(random);
  // The yardstick: K and V in float32, exact to its rounding.
  ElementMatrix k(DType::kFloat32, c.keys, c.nope + c.rope),
      v(DType::kFloat32, c.keys, c.v_head_dim);
  const auto dot = [&](const ElementMatrix& w, std::int64_t d, std::int64_t key) {
    double sum = 0;
    for (std::int64_t l = 0; l < rank; ++l) sum += w.get(d, l) * latents.get(key, l);
    return static_cast<float>(sum);
  };
  for (std::int64_t j = 0; j < c.keys; ++j) {
    for (std::int64_t d = 0; d < c.nope; ++d) k.set(j, d, dot(w_uk, d, j));
    for (std::int64_t d = 0; d < c.rope; ++d)
      k.set(j, c.nope + d, static_cast<float>(rope.get(j, d)));
    for (std::int64_t d = 0; d < c.v_head_dim; ++d) v.set(j, d, dot(w_uv, d, j));
  }

  const float scale = 1 / std::sqrt(static_cast<float>(c.nope + c.rope));
  BlockRun run(kernels, shape.shape, scale, q);
  ASSERT_LE(c.keys, run.block_k());
  const std::int64_t weight_bytes = kernels.weight_bytes(shape);
  const std::int64_t latent_bytes = kernels.latent_bytes(shape);
  Buffer packed_weights(weight_bytes), packed_latents(latent_bytes);
  kernels.pack_weights(shape, {w_uk.data(), w_uv.data(), w_uk.stride(), w_uv.stride(), c.dtype},
                       packed_weights.get());
  EXPECT_TRUE(kernels.pack_latents(shape, latents.row_pointers(), rope.row_pointers(), c.keys,
                                   packed_latents.get()));
  ThreadState saved;
  if (kernels.enter_thread != nullptr) kernels.enter_thread(&saved);
  kernels.project(shape, packed_weights.get(), packed_latents.get(), c.keys, run.panel());
  if (kernels.leave_thread != nullptr) kernels.leave_thread(&saved);
  EXPECT_TRUE(packed_weights.intact(weight_bytes));
  EXPECT_TRUE(packed_latents.intact(latent_bytes));
  const std::vector<std::int64_t> seen(5, c.keys);
  run.add(0, c.keys, true, seen);
  ElementMatrix out(DType::kFloat32, 5, c.v_head_dim);
  std::vector<float> lse(5);
  run.finish(out, lse);
  Tolerance tolerance = tolerance_of(rounds_to_bf16);
  if (rounds_to_bf16) tolerance = {3e-2, 1e-2};  // K and V are rounded too
  expect_attended(attend_in_double(q, k, v, shape.shape, scale, seen), out, lse, shape.shape,
                  tolerance);
}

// Whether this machine can run the table of that name.
inline bool runs_here(const std::string& table) {
  std::vector<std::string> needs;
  if (table == "avx2" || table.starts_with("avx512") || table == "amx")
    needs = {"avx2", "fma", "f16c"};
  if (table.starts_with("avx512") || table == "amx")
    needs.insert(needs.end(), {"avx512f", "avx512bw", "avx512dq", "avx512vl"});
  if (table == "avx512_bf16" || table == "amx") needs.push_back("avx512_bf16");
  if (table == "neon_bf16") needs = {"neon", "bf16"};
  if (table == "amx") needs.insert(needs.end(), {"amx_tile", "amx_bf16"});
  const IsaSet& has = this_machine().cpu.isa;
  for (const std::string& feature : needs) {
    if (std::find(has.begin(), has.end(), feature) == has.end()) return false;
  }
  return true;
}

}  // namespace mla::attention::cpu
