// A batch with memory of its own: tensors in every layout the contract allows, with poison (NaN) in
// every byte that no row covers, and outputs whose uncovered bytes are checked afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mla/attention.h"

namespace mla::conformance {

enum class Layout : std::uint8_t {
  kTokenMajor,    // [T,H,D]
  kHeadMajor,     // [H,T,D]
  kGapped,        // [T,H,D] with poison between rows and between tokens
  kKvProjection,  // k gapped, v the second part of a [N,H,nope+Dv] projection
  kDense,         // [B,H,S,D] padded, through request_offsets
  kPermuted,      // [T,H,D] with the requests in reverse order in memory, through request_offsets
  kSharedHeads,   // one k and v row for all heads: head_stride 0
  kLatent,        // the same, and v is the start of k's row (absorbed MLA)
};
constexpr Layout kAllLayouts[] = {Layout::kTokenMajor,   Layout::kHeadMajor, Layout::kGapped,
                                  Layout::kKvProjection, Layout::kDense,     Layout::kPermuted,
                                  Layout::kSharedHeads,  Layout::kLatent};
std::string_view name(Layout layout);

enum class Values : std::uint8_t {
  kNormal,    // standard normal q, k, v
  kLarge,     // exact scores up to 1e4 in magnitude, with near ties
  kEqual,     // all scores of a row equal
  kDominant,  // one key of each row far above the others
};
std::string_view name(Values values);

// Where a tensor's memory lies.
enum class Place : std::uint8_t {
  kHeap,      // poison before and behind
  kPageEnd,   // the last row ends where the next page may not be touched
  kPageStart  // the first row starts where the page before may not be touched
};

struct BatchSpec {
  DType dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  std::int64_t heads = 2;
  std::int64_t qk_dim = 192;
  std::int64_t v_dim = 128;
  std::vector<std::int64_t> q_lengths;
  std::vector<std::int64_t> k_lengths;
  bool causal = true;
  std::vector<std::int64_t> causal_offsets;  // empty: bottom right
  Layout layout = Layout::kTokenMajor;
  Values values = Values::kNormal;
  Place place = Place::kHeap;
  std::optional<float> scale;  // none: qk_dim^-0.5
  bool with_lse = true;
  std::int64_t lse_gap = 0;   // unused floats between the heads of lse
  bool wide_offsets = false;  // cu_seqlens as int64
  std::uint64_t seed = 0;
};

// One line that names everything that matters.
std::string to_string(const BatchSpec& spec);

// Bytes at a chosen place.
class Memory {
 public:
  Memory() = default;
  Memory(std::size_t bytes, Place place);
  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
};

struct TensorSpec {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> lengths;
  std::int64_t heads = 1;
  std::int64_t width = 1;
  Layout layout = Layout::kTokenMajor;
  Place place = Place::kHeap;
  bool value = false;  // v, which kKvProjection treats unlike k
};

// Rows addressed by request, token of the request, head.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const TensorSpec& spec);

  std::byte* row(std::int64_t r, std::int64_t i, std::int64_t h) const;
  double get(std::int64_t r, std::int64_t i, std::int64_t h, std::int64_t e) const;
  void set(std::int64_t r, std::int64_t i, std::int64_t h, std::int64_t e, double value);
  attention::ConstRows rows() const;
  attention::Rows writable() const;
  const TensorSpec& spec() const { return spec_; }
  std::int64_t row_bytes() const { return spec_.width * size_of(spec_.dtype); }

  // Rows get `covered`, every other byte `gaps`.
  void paint(std::byte covered, std::byte gaps);
  // Whether every byte outside the rows still is `gaps`.
  bool gaps_are(std::byte gaps) const;
  bool is_all(std::byte value) const;
  // The first `width` elements of every row, over the same memory.
  Tensor narrowed(std::int64_t width) const;

 private:
  void place_rows();
  template <class Visit>
  void for_each_row(Visit&& visit) const;

  TensorSpec spec_;
  Memory memory_;
  std::size_t bytes_ = 0;
  std::int64_t first_ = 0;  // elements from the memory's start to data
  std::int64_t token_stride_ = 0;
  std::int64_t head_stride_ = 0;
  std::vector<std::int64_t> starts_;  // of each request, elements from data
};

// What a run left behind.
struct Run {
  Status status;
  Tensor out;
  Tensor lse;             // [1 request of H tokens][T]: one row a head
  std::string intrusion;  // which output was written outside its rows; empty: none

  double lse_at(std::int64_t h, std::int64_t t) const { return lse.get(0, h, 0, t); }
};

struct Reference {
  std::vector<double> out;  // [T,H,Dv]
  std::vector<double> lse;  // [H,T]
};

class Batch {
 public:
  explicit Batch(BatchSpec spec);

  const BatchSpec& spec() const { return spec_; }
  std::int64_t requests() const { return static_cast<std::int64_t>(spec_.q_lengths.size()); }
  std::int64_t q_begin(std::int64_t r) const { return cu_q_[static_cast<std::size_t>(r)]; }
  std::int64_t total_q() const { return cu_q_.back(); }
  std::int64_t total_k() const { return cu_k_.back(); }
  // Keys that query i of request r sees: the first visible().
  std::int64_t visible(std::int64_t r, std::int64_t i) const;
  std::int64_t visible_pairs() const;

  Tensor& q() { return q_; }
  Tensor& k() { return k_; }
  Tensor& v() { return v_; }
  const Tensor& q() const { return q_; }
  const Tensor& k() const { return k_; }
  const Tensor& v() const { return v_; }

  // Outputs are the caller's; neither is touched here.
  attention::Args args(const Tensor& out, const Tensor& lse) const;
  Tensor new_out() const;
  Tensor new_lse() const;

  Run run(const attention::Implementation& implementation,
          const attention::RunOptions& options = {}) const;
  // The request alone, over the same memory.
  Run run_alone(const attention::Implementation& implementation, std::int64_t r) const;
  Reference reference() const;
  // Root mean square of the finite values of v.
  double rms_v() const;

 private:
  void fill();

  BatchSpec spec_;
  std::vector<std::int64_t> cu_q_{0}, cu_k_{0};
  std::vector<std::int32_t> cu_q32_, cu_k32_;
  Tensor q_, k_, v_;
};

}  // namespace mla::conformance
