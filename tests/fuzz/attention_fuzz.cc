// Arbitrary arguments of attend() against small buffers. Three oracles: what validate() says of
// overlapping outputs against marking every byte; AddressSanitizer on whatever is accepted; the
// answer of every row that runs here against the double reference, with all other bytes kept.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "mla/attention.h"
#include "mla/selector.h"

namespace {

using mla::DType;
using mla::Status;
using mla::attention::Args;
using mla::attention::CuSeqlens;
using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kElements = 2048;  // of each buffer

class Reader {
 public:
  Reader(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }
  std::int64_t below(std::int64_t n) { return byte() % n; }
  // Mostly small, sometimes any 64 bits.
  std::int64_t stride() {
    const std::uint8_t kind = byte();
    if (kind >= 8) return below(3) == 0 ? -below(70) : below(128) * (kind % 3 == 0 ? 8 : 1);
    std::int64_t any = 0;
    for (int i = 0; i < 8; ++i)
      any = static_cast<std::int64_t>(static_cast<std::uint64_t>(any) << 8 | byte());
    return any;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

// Ends the program so that the fuzzer keeps the input.
void require(bool holds) {
  if (!holds) std::abort();
}

struct Tensor {
  std::int64_t width = 0;
  std::int64_t element_bytes = 4;
  Integers offsets;  // one a request, or empty
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  int buffer = 0;           // which
  std::int64_t origin = 0;  // element of the buffer that data points at
};

struct Input {
  Args args;
  Integers cu_q{0}, cu_k{0}, causal_offsets;
  Tensor q, k, v, out, lse;
  // Buffers 0..4 belong to q, k, v, out, lse; a tensor may take another's.
  std::vector<std::unique_ptr<std::byte[]>> buffers;
};

constexpr std::size_t kBufferBytes = kElements * 4;

Tensor read_tensor(Reader& in, Input& input, int buffer, std::int64_t width) {
  Tensor tensor;
  tensor.width = width;
  tensor.element_bytes = mla::size_of(buffer == 3 ? input.args.out_dtype : input.args.dtype);
  tensor.buffer = in.below(16) == 0 ? static_cast<int>(in.below(5)) : buffer;
  tensor.origin = in.below(4) == 0 ? in.below(256) * 4 : 0;
  const bool plain = in.below(3) != 0;
  tensor.head_stride = plain ? width : in.stride();
  tensor.token_stride = plain ? width * input.args.num_heads : in.stride();
  if (in.below(3) == 0) {
    for (std::int64_t r = 0; r < input.args.num_requests; ++r) {
      tensor.offsets.push_back(in.stride() + 8 * in.below(64));
    }
  }
  return tensor;
}

std::byte* data_of(const Input& input, const Tensor& tensor) {
  return input.buffers[static_cast<std::size_t>(tensor.buffer)].get() +
         tensor.origin * tensor.element_bytes;
}

template <class Rows>
void bind(const Input& input, const Tensor& tensor, Rows& rows) {
  rows.data = data_of(input, tensor);
  rows.token_stride = tensor.token_stride;
  rows.head_stride = tensor.head_stride;
  rows.request_offsets = tensor.offsets.empty() ? nullptr : tensor.offsets.data();
}

void read_input(Reader& in, Input& input) {
  Args& args = input.args;
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  args.dtype = kTypes[in.below(3)];
  args.out_dtype = in.below(3) == 0 ? DType::kFloat32 : args.dtype;
  args.num_requests = in.below(4);
  args.num_heads = 1 + in.below(3);
  args.qk_head_dim = 1 + in.below(24);
  args.v_head_dim = 1 + in.below(24);
  args.causal = in.below(3) != 0;
  args.scale = static_cast<float>(in.below(17) - 8) / 16.0f;
  for (std::int64_t r = 0; r < args.num_requests; ++r) {
    input.cu_q.push_back(input.cu_q.back() + in.below(10));
    input.cu_k.push_back(input.cu_k.back() + in.below(14));
    input.causal_offsets.push_back(in.stride());
  }
  args.total_q = input.cu_q.back();
  args.total_k = input.cu_k.back();
  args.cu_seqlens_q = CuSeqlens(input.cu_q.data());
  args.cu_seqlens_k = CuSeqlens(input.cu_k.data());
  if (in.below(3) == 0) args.causal_offsets = input.causal_offsets.data();
  for (int b = 0; b < 5; ++b) input.buffers.push_back(std::make_unique<std::byte[]>(kBufferBytes));
  input.q = read_tensor(in, input, 0, args.qk_head_dim);
  input.k = read_tensor(in, input, 1, args.qk_head_dim);
  input.v = read_tensor(in, input, 2, args.v_head_dim);
  input.out = read_tensor(in, input, 3, args.v_head_dim);
  bind(input, input.q, args.q);
  bind(input, input.k, args.k);
  bind(input, input.v, args.v);
  bind(input, input.out, args.out);
  if (in.below(4) == 0) return;
  input.lse.width = args.total_q;
  input.lse.buffer = in.below(16) == 0 ? static_cast<int>(in.below(5)) : 4;
  args.lse_head_stride = in.below(2) == 0 ? 0 : in.stride();
  input.lse.head_stride = args.lse_head_stride != 0 ? args.lse_head_stride : args.total_q;
  args.lse = reinterpret_cast<float*>(data_of(input, input.lse));
}

// Marks the bytes of every row; false where one leaves its buffer.
class Marks {
 public:
  Marks() : bytes_(5 * kBufferBytes, 0) {}

  bool add(const Args& args, const Tensor& tensor, const Integers& cu, std::uint8_t mark) {
    for (std::int64_t r = 0; r < args.num_requests; ++r) {
      for (std::int64_t i = 0;
           i < cu[static_cast<std::size_t>(r) + 1] - cu[static_cast<std::size_t>(r)]; ++i) {
        for (std::int64_t h = 0; h < args.num_heads; ++h) {
          __extension__ using Wide = __int128;
          const Wide base = tensor.offsets.empty()
                                ? Wide{cu[static_cast<std::size_t>(r)]} * tensor.token_stride
                                : Wide{tensor.offsets[static_cast<std::size_t>(r)]};
          const Wide element =
              tensor.origin + base + Wide{i} * tensor.token_stride + Wide{h} * tensor.head_stride;
          if (!row(tensor, element, mark)) return false;
        }
      }
    }
    return true;
  }
  template <class Wide>
  bool row(const Tensor& tensor, Wide element, std::uint8_t mark) {
    const Wide first = element * tensor.element_bytes;
    const Wide end = first + tensor.width * tensor.element_bytes;
    if (first < 0 || end > static_cast<Wide>(kBufferBytes)) return false;
    for (Wide at = first; at < end; ++at) {
      std::uint8_t& seen = bytes_[static_cast<std::size_t>(at) +
                                  static_cast<std::size_t>(tensor.buffer) * kBufferBytes];
      // A byte of an output belongs to one row of one tensor.
      clash_ = clash_ || (mark == kOutput ? seen != 0 : seen == kOutput);
      seen = mark;
    }
    return true;
  }
  bool clash() const { return clash_; }
  bool output(std::size_t at) const { return bytes_[at] == kOutput; }

  static constexpr std::uint8_t kInput = 1, kOutput = 2;

 private:
  std::vector<std::uint8_t> bytes_;
  bool clash_ = false;
};

// Marks everything; false where the input describes memory that is not there.
bool mark_all(const Input& input, Marks& marks) {
  const Args& args = input.args;
  if (!marks.add(args, input.q, input.cu_q, Marks::kInput) ||
      !marks.add(args, input.k, input.cu_k, Marks::kInput) ||
      !marks.add(args, input.v, input.cu_k, Marks::kInput) ||
      !marks.add(args, input.out, input.cu_q, Marks::kOutput)) {
    return false;
  }
  if (args.lse == nullptr || args.total_q == 0) return true;
  for (std::int64_t h = 0; h < args.num_heads; ++h) {
    __extension__ using Wide = __int128;
    if (!marks.row(input.lse, Wide{h} * input.lse.head_stride, Marks::kOutput)) return false;
  }
  return true;
}

// Finite small values in every buffer.
void fill(Input& input, std::uint8_t seed) {
  std::uint32_t state = seed + 1u;
  for (auto& buffer : input.buffers) {
    for (std::size_t at = 0; at + 4 <= kBufferBytes; at += 4) {
      state = state * 1664525u + 1013904223u;
      // 0.5 to 2 with either sign, as bfloat16 twice, float16 twice or one float32.
      const std::uint32_t high = input.args.dtype == DType::kFloat16 ? 0x3800u : 0x3f00u;
      const std::uint32_t half = high | (state >> 20 & 0xffu) | (state >> 16 & 0x8000u);
      const std::uint32_t word = half << 16 | (input.args.dtype == DType::kFloat32 ? 0 : half);
      std::memcpy(buffer.get() + at, &word, 4);
    }
  }
}

double load(DType dtype, const std::byte* from) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, from, 2);
  if (dtype == DType::kBFloat16) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

void compare(const Input& input, const std::vector<double>& out, const std::vector<double>& lse) {
  const Args& args = input.args;
  const double tolerance = args.dtype == DType::kFloat32 ? 1e-4 : 5e-2;
  for (std::int64_t r = 0; r < args.num_requests; ++r) {
    const std::int64_t begin = input.cu_q[static_cast<std::size_t>(r)];
    const std::int64_t length = input.cu_q[static_cast<std::size_t>(r) + 1] - begin;
    const std::int64_t base = input.out.offsets.empty()
                                  ? begin * input.out.token_stride
                                  : input.out.offsets[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t h = 0; h < args.num_heads; ++h) {
        const std::int64_t row = base + i * input.out.token_stride + h * input.out.head_stride;
        for (std::int64_t e = 0; e < args.v_head_dim; ++e) {
          const double got =
              load(args.out_dtype, data_of(input, input.out) + (row + e) * input.out.element_bytes);
          const double wanted = out[static_cast<std::size_t>(
              ((begin + i) * args.num_heads + h) * args.v_head_dim + e)];
          require(std::fabs(got - wanted) <= tolerance);
        }
        if (args.lse == nullptr) continue;
        const double got = args.lse[h * input.lse.head_stride + begin + i];
        const double wanted = lse[static_cast<std::size_t>(h * args.total_q + begin + i)];
        require(got == wanted || std::fabs(got - wanted) <= 1e-2);
      }
    }
  }
}

void run(Input& input, const Marks& marks, const mla::attention::Implementation& implementation,
         std::uint8_t seed) {
  fill(input, seed);
  const Args& args = input.args;
  std::vector<double> out(
      static_cast<std::size_t>(args.total_q * args.num_heads * args.v_head_dim));
  std::vector<double> lse(static_cast<std::size_t>(args.total_q * args.num_heads));
  require(mla::attention::reference(args, out.data(), lse.data()).ok());
  std::vector<std::byte> before;
  for (const auto& buffer : input.buffers) {
    before.insert(before.end(), buffer.get(), buffer.get() + kBufferBytes);
  }
  const Status status = mla::attention::attend(implementation, args, {&mla::serial_executor(), 0});
  require(status.ok() != marks.clash());
  for (std::size_t at = 0; at < before.size(); ++at) {
    if (status.ok() && marks.output(at)) continue;
    require(input.buffers[at / kBufferBytes][at % kBufferBytes] == before[at]);
  }
  if (status.ok()) compare(input, out, lse);
}

std::vector<mla::Row> rows_that_run_here() {
  std::vector<mla::Row> rows;
  for (const mla::Row& row : mla::default_registry().rows()) {
    if (row.implementation == nullptr) continue;
    mla::Problem problem;
    problem.dims = {128, 64, 128};
    mla::Policy policy;
    policy.backend = row.full_name();
    const auto selection =
        mla::select_uncached(problem, mla::this_cpu_platform(), policy, mla::default_registry());
    if (selection.ok()) rows.push_back(row);
  }
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<mla::Row> rows = rows_that_run_here();
  Reader in(data, size);
  const std::uint8_t seed = in.byte();
  Input input;
  read_input(in, input);
  Marks marks;
  if (!mark_all(input, marks)) {
    // Memory that is not there: nothing to run, and nothing to say about the answer.
    static_cast<void>(mla::attention::validate(input.args));
    return 0;
  }
  for (const mla::Row& row : rows) run(input, marks, *row.implementation, seed);
  return 0;
}
