// Conversions are scalar and exact (round to nearest even): inputs are made once, results are read
// by the sample.
#include "tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

namespace mla::bench {
namespace {

constexpr std::size_t kAlignment = 64;

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Finite values whose size float16 can hold (filled tensors stay far below its largest, 65504).
std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float size = std::fabs(value);
  if (size < 0x1p-14F) {  // subnormal: units of 2^-24
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24F)));
  }
  const std::uint32_t rounded = (bits & 0x7fffffffU) + 0xfffU + ((bits >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

float from_float16(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  float size = std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 31) {
    size = fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : std::numeric_limits<float>::infinity();
  } else if (exponent > 0) {
    size = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -size : size;
}

// splitmix64 (Steele, Lea, Flood 2014): a good hash of the index, so that filling needs no state.
std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

float about_normal(std::uint64_t bits, double deviation) {
  const auto sum = static_cast<double>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                       ((bits >> 32) & 0xffff) + (bits >> 48));
  // Four uniforms on [0, 65536): mean 131072, variance 4 * 65536^2 / 12.
  return static_cast<float>((sum - 131070.0) / (65536.0 * std::sqrt(1.0 / 3.0)) * deviation);
}

}  // namespace

void Tensor::Free::operator()(std::byte* memory) const { std::free(memory); }

Result<Tensor> Tensor::make(DType dtype, std::int64_t count, const char* what) {
  const std::int64_t size = size_of(dtype);
  const auto limit = std::numeric_limits<std::int64_t>::max() / size - std::int64_t{kAlignment};
  std::byte* memory = nullptr;
  if (count >= 0 && count <= limit) {
    const auto bytes = static_cast<std::size_t>(count * size);
    const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
    memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
    if (memory != nullptr) std::memset(memory, 0, rounded);
  }
  if (memory == nullptr) {
    return Error{ErrorCode::kOutOfMemory, what,
                 "no memory for " + std::string(what) + ": " + std::to_string(count) +
                     " elements of " + std::string(name(dtype))};
  }
  return Tensor(dtype, count, memory);
}

double Tensor::get(std::int64_t index) const {
  if (dtype_ == DType::kFloat32) return reinterpret_cast<const float*>(data_.get())[index];
  const std::uint16_t half = reinterpret_cast<const std::uint16_t*>(data_.get())[index];
  if (dtype_ == DType::kFloat16) return from_float16(half);
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

void Tensor::fill(std::uint64_t seed, double deviation) {
  const std::uint64_t base = mixed(seed);
  for (std::int64_t i = 0; i < count_; ++i) {
    const float value = about_normal(mixed(base + static_cast<std::uint64_t>(i)), deviation);
    if (dtype_ == DType::kFloat32) {
      reinterpret_cast<float*>(data_.get())[i] = value;
    } else {
      reinterpret_cast<std::uint16_t*>(data_.get())[i] =
          dtype_ == DType::kFloat16 ? to_float16(value) : to_bfloat16(value);
    }
  }
}

double Tensor::rms() const {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t step = std::max<std::int64_t>(1, count_ / kMost);
  double sum = 0.0;
  std::int64_t seen = 0;
  for (std::int64_t i = 0; i < count_; i += step, ++seen) sum += get(i) * get(i);
  return seen == 0 ? 0.0 : std::sqrt(sum / static_cast<double>(seen));
}

double ulp(DType dtype, double value) {
  const int digits = dtype == DType::kFloat32 ? 24 : dtype == DType::kFloat16 ? 11 : 8;
  const int smallest = dtype == DType::kFloat16 ? -14 : -126;
  const int exponent = value == 0.0 ? smallest : std::max(std::ilogb(value), smallest);
  return std::ldexp(1.0, exponent - digits + 1);
}

}  // namespace mla::bench
