// 2^x for x <= 126 by rounding with a magic number and a polynomial, for Isa types without an
// instruction of their own.
//
// x = n + f, |f| <= 1/2; adding 1.5 * 2^23 + 127 leaves n + 127 in the low bits, which shifted into
// the exponent are 2^n; 2^f is the degree-5 minimax polynomial, relative error below 2e-7 in fp32.
// From x = -127 down the result is exactly 0, -inf included; NaN stays NaN.
#pragma once

namespace mla::attention::cpu {
namespace {

template <class Isa>
typename Isa::Vec exp2_by_polynomial(typename Isa::Vec x) {
  const auto magic = Isa::set(12582912.0f + 127.0f);
  x = Isa::max(Isa::set(-127.0f), x);  // a NaN in the second place is kept
  const auto shifted = Isa::add(x, magic);
  const auto f = Isa::sub(x, Isa::sub(shifted, magic));
  auto p = Isa::set(1.3276472e-3f);
  p = Isa::fma(p, f, Isa::set(9.6755410e-3f));
  p = Isa::fma(p, f, Isa::set(5.5507131e-2f));
  p = Isa::fma(p, f, Isa::set(2.4022120e-1f));
  p = Isa::fma(p, f, Isa::set(6.9314694e-1f));
  p = Isa::fma(p, f, Isa::set(1.0f));
  return Isa::mul(p, Isa::exponent_from_low_bits(shifted));
}

}  // namespace
}  // namespace mla::attention::cpu
