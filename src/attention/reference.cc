// The yardstick: attention in double precision, as the formulas stand, whole score rows at a time.
//
// A work item is a request, a head and up to kBlockRows queries; blocks of keys are turned into
// doubles once for all rows of an item. No row depends on how items are shared among workers.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <vector>

#include "attention/ragged.h"
#include "attention/validate.h"
#include "core/half.h"

namespace mla::attention {
namespace {

constexpr std::int64_t kBlockRows = 16;
constexpr std::int64_t kBlockKeys = 64;

template <class T>
void widen(const void* data, std::int64_t offset, std::int64_t count, double* to) {
  const T* from = static_cast<const T*>(data) + offset;
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

void widen(DType dtype, const void* data, std::int64_t offset, std::int64_t count, double* to) {
  switch (dtype) {
    case DType::kFloat32:
      return widen<float>(data, offset, count, to);
    case DType::kFloat16:
      return widen<Float16>(data, offset, count, to);
    default:
      return widen<BFloat16>(data, offset, count, to);
  }
}

// Eight sums, so that the compiler may use its vectors without changing the order of additions.
double dot(const double* a, const double* b, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  double sums[kLanes] = {};
  std::int64_t d = 0;
  for (; d + kLanes <= count; d += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[d + lane] * b[d + lane];
  }
  for (; d < count; ++d) sums[d % kLanes] += a[d] * b[d];
  double sum = 0;
  for (double part : sums) sum += part;
  return sum;
}

// One worker's memory: queries, a block of keys or values, and whole rows of scores.
struct Scratch {
  std::vector<double> q, block, scores;
};

struct Item {
  std::int64_t request = 0;
  std::int64_t head = 0;
  std::int64_t first = 0;  // query of the request
  std::int64_t rows = 0;
};

class ReferenceRun {
 public:
  ReferenceRun(const Args& args, double* out, double* lse) : args_(args), out_(out), lse_(lse) {}

  void item(const Item& item, Scratch* scratch) const {
    const Request request = request_of(args_, item.request);
    const std::int64_t keys = request.visible(item.first + item.rows - 1);
    const std::int64_t q_base = request_base(args_.q, item.request, request.q_begin);
    for (std::int64_t i = 0; i < item.rows; ++i) {
      widen(args_.dtype, args_.q.data,
            q_base + (item.first + i) * args_.q.token_stride + item.head * args_.q.head_stride,
            args_.qk_head_dim, scratch->q.data() + i * args_.qk_head_dim);
    }
    score(item, request, keys, scratch);
    for (std::int64_t i = 0; i < item.rows; ++i) normalise(item, request, i, scratch);
    if (out_ != nullptr) weigh(item, request, keys, scratch);
  }

 private:
  // s = scale q k^T, for the keys each row sees.
  void score(const Item& item, const Request& request, std::int64_t keys, Scratch* scratch) const {
    if (keys == 0) return;  // the strides of no rows may be anything
    const std::int64_t dim = args_.qk_head_dim;
    const std::int64_t base =
        request_base(args_.k, item.request, request.k_begin) + item.head * args_.k.head_stride;
    for (std::int64_t start = 0; start < keys; start += kBlockKeys) {
      const std::int64_t end = std::min(start + kBlockKeys, keys);
      for (std::int64_t j = start; j < end; ++j) {
        widen(args_.dtype, args_.k.data, base + j * args_.k.token_stride, dim,
              scratch->block.data() + (j - start) * dim);
      }
      for (std::int64_t i = 0; i < item.rows; ++i) {
        const std::int64_t visible = std::min(end, request.visible(item.first + i));
        for (std::int64_t j = start; j < visible; ++j) {
          const double* q = scratch->q.data() + i * dim;
          const double* k = scratch->block.data() + (j - start) * dim;
          scratch->scores[static_cast<std::size_t>(i * keys + j)] = args_.scale * dot(q, k, dim);
        }
      }
    }
  }

  // p = exp(s - m) / sum, lse = m + ln(sum).
  void normalise(const Item& item, const Request& request, std::int64_t i, Scratch* scratch) const {
    const std::int64_t keys = request.visible(item.first + item.rows - 1);
    const std::int64_t visible = request.visible(item.first + i);
    double* s = scratch->scores.data() + i * keys;
    double* lse = lse_ == nullptr
                      ? nullptr
                      : lse_ + item.head * args_.total_q + request.q_begin + item.first + i;
    if (visible == 0) {
      if (lse != nullptr) *lse = -std::numeric_limits<double>::infinity();
      return;
    }
    // Not std::max_element: a NaN score must not depend on its place.
    double m = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < visible; ++j) m = std::fmax(m, s[j]);
    double sum = 0;
    for (std::int64_t j = 0; j < visible; ++j) {
      s[j] = std::exp(s[j] - m);
      sum += s[j];
    }
    for (std::int64_t j = 0; j < visible; ++j) s[j] /= sum;
    if (lse != nullptr) *lse = m + std::log(sum);
  }

  // o = p v
  void weigh(const Item& item, const Request& request, std::int64_t keys, Scratch* scratch) const {
    const std::int64_t dim = args_.v_head_dim;
    const auto out_row = [&](std::int64_t i) {
      return out_ + ((request.q_begin + item.first + i) * args_.num_heads + item.head) * dim;
    };
    for (std::int64_t i = 0; i < item.rows; ++i) std::fill_n(out_row(i), dim, 0.0);
    if (keys == 0) return;  // as above
    const std::int64_t base =
        request_base(args_.v, item.request, request.k_begin) + item.head * args_.v.head_stride;
    for (std::int64_t start = 0; start < keys; start += kBlockKeys) {
      const std::int64_t end = std::min(start + kBlockKeys, keys);
      for (std::int64_t j = start; j < end; ++j) {
        widen(args_.dtype, args_.v.data, base + j * args_.v.token_stride, dim,
              scratch->block.data() + (j - start) * dim);
      }
      for (std::int64_t i = 0; i < item.rows; ++i) {
        double* o = out_row(i);
        const std::int64_t visible = std::min(end, request.visible(item.first + i));
        for (std::int64_t j = start; j < visible; ++j) {
          const double p = scratch->scores[static_cast<std::size_t>(i * keys + j)];
          const double* v = scratch->block.data() + (j - start) * dim;
          for (std::int64_t d = 0; d < dim; ++d) o[d] += p * v[d];
        }
      }
    }
  }

  const Args& args_;
  double* out_;
  double* lse_;
};

std::vector<Item> items_of(const Args& args, std::int64_t* most_keys) {
  std::vector<Item> items;
  for (std::int64_t r = 0; r < args.num_requests; ++r) {
    const Request request = request_of(args, r);
    if (request.q_length == 0) continue;
    *most_keys = std::max(*most_keys, request.visible(request.q_length - 1));
    for (std::int64_t h = 0; h < args.num_heads; ++h) {
      for (std::int64_t first = 0; first < request.q_length; first += kBlockRows) {
        items.push_back({r, h, first, std::min(kBlockRows, request.q_length - first)});
      }
    }
  }
  return items;
}

void run(const Args& args, double* out, double* lse, const RunOptions& options) {
  std::int64_t most_keys = 0;
  const std::vector<Item> items = items_of(args, &most_keys);
  Executor& executor = options.executor != nullptr ? *options.executor : default_executor();
  const std::int64_t wanted =
      options.num_threads > 0 ? options.num_threads : executor.concurrency();
  const int workers =
      static_cast<int>(std::min<std::int64_t>(wanted, static_cast<std::int64_t>(items.size())));
  if (workers == 0) return;
  // All memory is here before the first worker starts: nothing throws inside the executor.
  const auto doubles = [](std::int64_t a, std::int64_t b) {
    return std::vector<double>(static_cast<std::size_t>(a) * static_cast<std::size_t>(b));
  };
  const std::int64_t dim = std::max(args.qk_head_dim, args.v_head_dim);
  std::vector<Scratch> scratch;
  for (int w = 0; w < workers; ++w) {
    scratch.push_back({doubles(kBlockRows, args.qk_head_dim), doubles(kBlockKeys, dim),
                       doubles(kBlockRows, most_keys)});
  }
  const ReferenceRun reference_run(args, out, lse);
  std::atomic<std::size_t> next = 0;
  executor.for_each_worker(workers, [&](int worker) {
    for (std::size_t i = next++; i < items.size(); i = next++) {
      reference_run.item(items[i], &scratch[static_cast<std::size_t>(worker)]);
    }
  });
}

}  // namespace

Status reference(const Args& args, double* out, double* lse, const RunOptions& options) {
  if (Status s = validate_inputs(args); !s) return s;
  try {
    run(args, out, lse, options);
    return {};
  } catch (const std::exception&) {  // bad_alloc, length_error
    return Error{ErrorCode::kOutOfMemory, "total_k",
                 "no memory for the scores of " + std::to_string(kBlockRows) + " rows of " +
                     std::to_string(args.total_k) + " keys"};
  }
}

}  // namespace mla::attention
