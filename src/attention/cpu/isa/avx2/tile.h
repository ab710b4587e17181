// The full tile of AVX2, 6 rows by 16 columns, in assembly because compilers spill or reorder: a
// step is 2 loads of B, 6 broadcasts of A and 12 multiply-adds, 6 cycles of both units. B is
// fetched 1 KiB (16 steps) before it is needed, over the end of its group into the next.
#pragma once

#include "attention/cpu/panels.h"

namespace mla::attention::cpu {
namespace {

// clang-format off
// Row r, whose A is at address a, into accumulators low and high.
#define MLA_ROW(a, tmp, low, high)                                                          \
  "vbroadcastss " a ", %%ymm" tmp "\nvfmadd231ps %%ymm12, %%ymm" tmp ", %%ymm" low          \
  "\nvfmadd231ps %%ymm13, %%ymm" tmp ", %%ymm" high "\n"
#define MLA_STEP(at_a, at_b, ahead)                                                         \
  "prefetcht0 " ahead "(%[b])\n"                                                            \
  "vmovups " at_b "(%[b]), %%ymm12\nvmovups 32+" at_b "(%[b]), %%ymm13\n"                   \
  MLA_ROW(at_a "(%[a])", "14", "0", "1")                                                    \
  MLA_ROW(at_a "(%[a],%[as])", "15", "2", "3")                                              \
  MLA_ROW(at_a "(%[a],%[as],2)", "14", "4", "5")                                            \
  MLA_ROW(at_a "(%[a3])", "15", "6", "7")                                                   \
  MLA_ROW(at_a "(%[a3],%[as])", "14", "8", "9")                                             \
  MLA_ROW(at_a "(%[a3],%[as],2)", "15", "10", "11")
#define MLA_ADD(at, low, high) \
  "vaddps " at ", %%ymm" low ", %%ymm" low "\nvaddps 32" at ", %%ymm" high ", %%ymm" high "\n"
#define MLA_STORE(at, low, high) \
  "vmovups %%ymm" low ", " at "\nvmovups %%ymm" high ", 32" at "\n"
#define MLA_ROWS(f)                                                                         \
  f("(%[c])", "0", "1") f("(%[c],%[cs])", "2", "3") f("(%[c],%[cs],2)", "4", "5")           \
  f("(%[c3])", "6", "7") f("(%[c3],%[cs])", "8", "9") f("(%[c3],%[cs],2)", "10", "11")
// clang-format on

void multiply_tile_6x16(const Product<float>& product, bool add) {
  const float* a = product.a;
  const float* a3 = product.a + 3 * product.a_stride;
  const float* b = product.b;
  Index fours = product.steps / 4;
  Index ones = product.steps % 4;
  float* const c = product.c;
  float* const c3 = product.c + 3 * product.c_stride;
  const Index a_stride = product.a_stride * Index{sizeof(float)};
  const Index c_stride = product.c_stride * Index{sizeof(float)};
  asm volatile(
      ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11\n"
      "vxorps %%ymm\\r, %%ymm\\r, %%ymm\\r\n"
      ".endr\n"
      "test %[fours], %[fours]\njz 2f\n"
      ".p2align 5\n1:\n"  //
      MLA_STEP("0", "0", "1024") MLA_STEP("4", "64", "1088") MLA_STEP("8", "128", "1152")
          MLA_STEP("12", "192", "1216")
      "add $256, %[b]\nadd $16, %[a]\nadd $16, %[a3]\n"
      "dec %[fours]\njnz 1b\n"
      "2:\ntest %[ones], %[ones]\njz 4f\n"
      "3:\n"  //
      MLA_STEP("0", "0", "1024")
      "add $64, %[b]\nadd $4, %[a]\nadd $4, %[a3]\n"
      "dec %[ones]\njnz 3b\n"
      "4:\ntest %[add], %[add]\njz 5f\n"  //
      MLA_ROWS(MLA_ADD)
      "5:\n"  //
      MLA_ROWS(MLA_STORE)
      : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [fours] "+r"(fours), [ones] "+r"(ones)
      : [as] "r"(a_stride), [c] "r"(c), [c3] "r"(c3), [cs] "r"(c_stride),
        [add] "r"(static_cast<Index>(add))
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

#undef MLA_ROW
#undef MLA_STEP
#undef MLA_ADD
#undef MLA_STORE
#undef MLA_ROWS

}  // namespace
}  // namespace mla::attention::cpu
