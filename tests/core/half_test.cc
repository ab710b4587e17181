// float16 and bfloat16: every value, and every rounding boundary between neighbours.
#include "core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace mla {
namespace {

// The value by its definition: sign, exponent, mantissa.
double value_of(std::uint32_t bits, int mantissa_bits, int exponent_bits) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1u);
  const std::uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1u);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (mantissa_bits + exponent_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == (1u << exponent_bits) - 1u) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                       : sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

template <class T>
struct Format;
template <>
struct Format<Float16> {
  static constexpr int kMantissa = 10, kExponent = 5;
};
template <>
struct Format<BFloat16> {
  static constexpr int kMantissa = 7, kExponent = 8;
};

template <class T>
class Half : public testing::Test {
 protected:
  static double exact(std::uint32_t bits) {
    return value_of(bits, Format<T>::kMantissa, Format<T>::kExponent);
  }
  static std::uint16_t round(float value) {
    T out;
    from_float(value, &out);
    return out.bits;
  }
  // Positive infinity's bits.
  static constexpr std::uint32_t kInf = ((1u << Format<T>::kExponent) - 1u) << Format<T>::kMantissa;
};
using Formats = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(Half, Formats);

TYPED_TEST(Half, EveryValueWidensExactlyAndComesBack) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float wide = to_float(TypeParam{static_cast<std::uint16_t>(bits)});
    const double exact = this->exact(bits);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(wide)) << bits;
      EXPECT_TRUE(std::isnan(this->exact(this->round(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(wide, exact) << bits;
    ASSERT_EQ(std::signbit(wide), std::signbit(exact)) << bits;
    ASSERT_EQ(this->round(wide), bits);
  }
}

TYPED_TEST(Half, EveryTieGoesToEvenAndItsNeighboursToTheNearest) {
  for (std::uint32_t bits = 0; bits < this->kInf; ++bits) {
    // The value above the largest finite one is where infinity would lie.
    const double low = this->exact(bits);
    const double high =
        bits + 1 == this->kInf ? 2 * low - this->exact(bits - 1) : this->exact(bits + 1);
    const float tie = static_cast<float>((low + high) / 2);
    ASSERT_EQ(tie, (low + high) / 2) << bits;
    const float infinity = std::numeric_limits<float>::infinity();
    ASSERT_EQ(this->round(tie), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(this->round(std::nextafter(tie, 0.0f)), bits);
    ASSERT_EQ(this->round(std::nextafter(tie, infinity)), bits + 1);
    ASSERT_EQ(this->round(-tie), 0x8000u | (bits % 2 == 0 ? bits : bits + 1));
  }
}

TYPED_TEST(Half, LargeAndSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(this->round(infinity), this->kInf);
  EXPECT_EQ(this->round(-infinity), 0x8000u | this->kInf);
  EXPECT_EQ(this->round(std::numeric_limits<float>::max()), this->kInf);
  EXPECT_EQ(this->round(-0.0f), 0x8000u);
  EXPECT_EQ(this->round(std::numeric_limits<float>::denorm_min()), 0u);
  for (std::uint32_t payload : {0x7f800001u, 0x7f8fffffu, 0x7fffffffu, 0xffc00000u, 0xff800001u}) {
    EXPECT_TRUE(std::isnan(this->exact(this->round(std::bit_cast<float>(payload))))) << payload;
  }
}

}  // namespace
}  // namespace mla
