// The face between the CPU algorithm and an instruction set: one table of functions a translation
// unit of isa/ exports. The algorithm (schedule, sharing, ragged walk) calls only this table, so it
// is the same for scalar lanes and for matrix tiles; panel and state layouts are private to a
// table.
//
// Words: a *query block* is up to block_q query rows of one unit, a *panel* is the packed K and V
// of up to block_k keys of one unit, a *unit* is one request and one head (or all heads of a
// request where they share K and V, folded into the query rows).
#pragma once

#include <cstddef>
#include <cstdint>

#include "mla/core.h"

namespace mla::attention::cpu {

// What the numbers look like; fixed for a call.
struct Shape {
  DType dtype = DType::kBFloat16;  // of q, k, v as given
  std::int64_t qk_head_dim = 0;    // Dq
  std::int64_t v_head_dim = 0;     // Dv
};

// Sizes that follow from a shape, the instruction set and the caches; never from thread counts or
// the batch, so that a request's bits do not depend on either. Byte sizes are multiples of 64.
struct Blocking {
  std::int64_t block_q = 0;        // query rows in a full query block
  std::int64_t block_k = 0;        // keys in a full panel
  std::int64_t query_bytes = 0;    // a packed query block
  std::int64_t state_bytes = 0;    // o, m, l of a query block between panels
  std::int64_t panel_bytes = 0;    // a panel
  std::int64_t scratch_bytes = 0;  // working memory of one worker (S, P), not kept between calls
};

// One step: a query block attends to a panel.
struct Step {
  const void* queries = nullptr;  // query_bytes, from pack_queries
  const void* panel = nullptr;    // panel_bytes, from pack_panel or project
  std::int64_t rows = 0;          // query rows in use, 1..block_q
  std::int64_t keys = 0;          // keys in use, 1..block_k
  // Keys of this panel that row r may see, [rows], 0..keys, never decreasing with r; null: all
  // rows see all keys.
  const std::int32_t* visible = nullptr;
  bool panel_finite = true;  // what packing said: no NaN or inf in v
};

// Weights of one head for the expanded form: k_nope = latent W_UK^T, v = latent W_UV^T.
struct HeadWeights {
  const void* w_uk = nullptr;  // [nope, L], row stride w_uk_stride
  const void* w_uv = nullptr;  // [Dv, L], row stride w_uv_stride
  std::int64_t w_uk_stride = 0;
  std::int64_t w_uv_stride = 0;
  DType dtype = DType::kBFloat16;
};

struct ProjectionShape {
  Shape shape;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t kv_lora_rank = 0;  // L
  DType latent_dtype = DType::kBFloat16;
};

// A product of the prefill operator's absorbed form: out [rows,n] = a [rows,k] b [k,n], where b is
// packed once. An element of out is the same whatever other rows are multiplied with it.
struct MatrixShape {
  std::int64_t k = 0;
  std::int64_t n = 0;
  DType a_dtype = DType::kBFloat16;  // products and sums in float32 of a as it is given
  DType b_dtype = DType::kBFloat16;
  DType out_dtype = DType::kFloat32;
};

struct MatrixSource {
  const void* data = nullptr;  // element (i, j) of b at data[i*k_stride + j*n_stride], of b_dtype
  std::int64_t k_stride = 0;
  std::int64_t n_stride = 0;
};

struct MatrixRows {
  const void* const* a = nullptr;  // a[i]: k elements of a_dtype
  void* const* out = nullptr;      // out[i]: n elements of out_dtype
  std::int64_t count = 0;
};

// A step of the absorbed form over few query rows that all see all of these keys. V is the first
// v_head_dim elements of K.
struct FewStep {
  const void* const* k_rows = nullptr;  // [keys + ahead], Dq elements each
  std::int64_t keys = 0;                // any number
  std::int64_t rows = 0;                // 1..few_rows
  std::int64_t ahead = 0;               // rows after them that the next step begins with
};

// What the prefill operator's cost model multiplies: nanoseconds of one thread, measured with
// `mla bench prefill` (docs/prefill.md). Only their ratios decide, so a table serves other machines
// that have its instructions.
struct Rates {
  double attend = 0;       // a multiply-add of q k^T or p v over packed panels
  double project = 0;      // a multiply-add of project()
  double latent_key = 0;   // pack_latents(), a key
  double fold = 0;         // a multiply-add of attention in latent space
  double fold_key = 0;     // pack_panel() of a latent key
  double few = 0;          // a multiply-add of step_few()
  double few_key = 0;      // a key of step_few(), whatever the rows
  double product = 0;      // a multiply-add of multiply()
  double row_granule = 0;  // rows that a step computes at once
};

// Of a table that nothing was measured of: the ratios of avx2.
inline constexpr Rates kUnmeasuredRates = {.attend = 1.0,
                                           .project = 1.0,
                                           .latent_key = 5700,
                                           .fold = 1.0,
                                           .fold_key = 11000,
                                           .few = 1.0,
                                           .few_key = 8200,
                                           .product = 1.1,
                                           .row_granule = 6};

// Registers of a thread that a table takes over and gives back as found: the tile configuration
// and the tiles of matrix units.
struct alignas(64) ThreadState {
  std::byte bytes[64 + 8 * 1024];
};

// Every buffer a table is given (queries, panel, state, scratch, weights, latents) is aligned to
// 64 bytes.
struct Kernels {
  const char* name = nullptr;  // "avx2"

  // Whether this table computes the shape itself (an instruction set may leave a dtype to another).
  bool (*supports)(const Shape& shape);
  Blocking (*blocking)(const Shape& shape);

  // Around a run of calls of step() or project() on one thread; null: nothing to do. Not nested.
  void (*enter_thread)(ThreadState* saved) = nullptr;
  void (*leave_thread)(const ThreadState* saved) = nullptr;

  // rows[i] is the first element of query row i (Dq elements).
  void (*pack_queries)(const Shape& shape, const void* const* rows, std::int64_t count,
                       void* queries);
  // k_rows[i], v_rows[i]: key i's Dq and Dv elements. Unused key places up to block_k are made
  // harmless. True when every v is finite.
  bool (*pack_panel)(const Shape& shape, const void* const* k_rows, const void* const* v_rows,
                     std::int64_t count, void* panel);

  // state: of state_bytes. begin() makes it empty; step() adds a panel; finish() writes row r to
  // out_rows[r] (Dv elements of out_dtype) and *lse_rows[r] where lse_rows is not null.
  void (*begin)(const Shape& shape, std::int64_t rows, void* state);
  void (*step)(const Shape& shape, float scale, const Step& step, void* state, void* scratch);
  void (*finish)(const Shape& shape, std::int64_t rows, const void* state, DType out_dtype,
                 void* const* out_rows, float* const* lse_rows);

  // The expanded form of the prefill operator: project() makes from a block of latents the panel
  // that pack_panel would make from the projected K and V.
  std::int64_t (*weight_bytes)(const ProjectionShape& shape);
  void (*pack_weights)(const ProjectionShape& shape, const HeadWeights& weights, void* packed);
  std::int64_t (*latent_bytes)(const ProjectionShape& shape);  // of block_k keys
  // latent_rows[i]: L elements, rope_rows[i]: rope elements, both of latent_dtype. True: all
  // finite.
  bool (*pack_latents)(const ProjectionShape& shape, const void* const* latent_rows,
                       const void* const* rope_rows, std::int64_t count, void* latents);
  void (*project)(const ProjectionShape& shape, const void* weights, const void* latents,
                  std::int64_t count, void* panel);

  // The products of the absorbed form; null: the table has none of its own.
  std::int64_t (*matrix_bytes)(const MatrixShape& shape) = nullptr;
  void (*pack_matrix)(const MatrixShape& shape, const MatrixSource& source, void* packed) = nullptr;
  void (*multiply)(const MatrixShape& shape, const void* packed, const MatrixRows& rows) = nullptr;

  // step() for at most few_rows query rows without packing a panel, where the table has such a path
  // (few_rows > 0). memory: of few_bytes, holds the queries between pack_few() and the steps. The
  // state is that of begin(), step() and finish(), and a query block may use both kinds of steps.
  std::int64_t few_rows = 0;
  std::int64_t (*few_bytes)(const Shape& shape) = nullptr;
  void (*pack_few)(const Shape& shape, const void* const* rows, std::int64_t count,
                   void* memory) = nullptr;
  void (*step_few)(const Shape& shape, float scale, const FewStep& step, void* state,
                   void* memory) = nullptr;

  Rates rates = kUnmeasuredRates;

  // Multiply-adds per second that this instruction set's own multiply-add units reach on the
  // calling thread for a dtype that supports() takes, times two, in GFLOP/s, measured over about
  // `milliseconds`.
  double (*probe_peak)(DType dtype, double milliseconds);
};

// The table itself where it supports the shape, else the next simpler one that does: what it needs
// of the machine is a part of what the table needs.
const Kernels& kernels_for(const Kernels& table, const Shape& shape);

// The same for what the absorbed form needs beside attention and not every table has: products and
// steps over few rows.
const Kernels& product_kernels_for(const Kernels& table);

}  // namespace mla::attention::cpu
