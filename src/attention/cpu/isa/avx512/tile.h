// The full tile of the AVX-512 Isa types, 12 rows by 32 columns, in assembly because compilers
// spill or reorder: a step is 2 loads of B, 12 broadcasts of A and 24 multiply-adds, 12 cycles of
// both units. B is fetched 1 KiB (8 steps) before it is needed, over the end of its group into the
// next.
#pragma once

#include "attention/cpu/panels.h"

namespace mla::attention::cpu {
namespace {

// clang-format off
// Row r, whose A is at address a, into accumulators low and high.
#define MLA_ROW(op, a, tmp, low, high)                        \
  "vbroadcastss " a ", %%zmm" tmp "\n" op " %%zmm24, %%zmm" tmp ", %%zmm" low "\n" op \
  " %%zmm25, %%zmm" tmp ", %%zmm" high "\n"
#define MLA_STEP(op, at_a, at_b, ahead, ahead2)                                                \
  "vmovups " at_b "(%[b]), %%zmm24\nvmovups 64+" at_b "(%[b]), %%zmm25\n"                      \
  "prefetcht0 " ahead "(%[b])\nprefetcht0 " ahead2 "(%[b])\n"                                  \
  MLA_ROW(op, at_a "(%[a])", "26", "0", "1")                                                   \
  MLA_ROW(op, at_a "(%[a],%[as])", "27", "2", "3")                                             \
  MLA_ROW(op, at_a "(%[a],%[as],2)", "28", "4", "5")                                           \
  MLA_ROW(op, at_a "(%[a3])", "29", "6", "7")                                                  \
  MLA_ROW(op, at_a "(%[a3],%[as])", "30", "8", "9")                                            \
  MLA_ROW(op, at_a "(%[a3],%[as],2)", "31", "10", "11")                                        \
  MLA_ROW(op, at_a "(%[a6])", "26", "12", "13")                                                \
  MLA_ROW(op, at_a "(%[a6],%[as])", "27", "14", "15")                                          \
  MLA_ROW(op, at_a "(%[a6],%[as],2)", "28", "16", "17")                                        \
  MLA_ROW(op, at_a "(%[a9])", "29", "18", "19")                                                \
  MLA_ROW(op, at_a "(%[a9],%[as])", "30", "20", "21")                                          \
  MLA_ROW(op, at_a "(%[a9],%[as],2)", "31", "22", "23")
#define MLA_ADD(at, low, high) \
  "vaddps " at ", %%zmm" low ", %%zmm" low "\nvaddps 64" at ", %%zmm" high ", %%zmm" high "\n"
#define MLA_STORE(at, low, high) \
  "vmovups %%zmm" low ", " at "\nvmovups %%zmm" high ", 64" at "\n"
// The rows of C; a..a9 point to its rows 0, 3, 6 and 9 by then.
#define MLA_ROWS(f)                                                                          \
  f("(%[a])", "0", "1") f("(%[a],%[cs])", "2", "3") f("(%[a],%[cs],2)", "4", "5")            \
  f("(%[a3])", "6", "7") f("(%[a3],%[cs])", "8", "9") f("(%[a3],%[cs],2)", "10", "11")       \
  f("(%[a6])", "12", "13") f("(%[a6],%[cs])", "14", "15") f("(%[a6],%[cs],2)", "16", "17")   \
  f("(%[a9])", "18", "19") f("(%[a9],%[cs])", "20", "21") f("(%[a9],%[cs],2)", "22", "23")
#define MLA_TILE(op)                                                                            \
  asm volatile(                                                                                 \
      ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"                 \
      "vpxord %%zmm\\r, %%zmm\\r, %%zmm\\r\n"                                                  \
      ".endr\n"                                                                                 \
      "lea (%[as],%[as],2), %[a9]\n"                                                            \
      "lea (%[a],%[a9]), %[a3]\nlea (%[a3],%[a9]), %[a6]\nadd %[a6], %[a9]\n"                   \
      "test %[twos], %[twos]\njz 2f\n"                                                          \
      ".p2align 5\n1:\n"                                                                        \
      MLA_STEP(op, "0", "0", "1024", "1088") MLA_STEP(op, "4", "128", "1152", "1216")           \
      "add $256, %[b]\nadd $8, %[a]\nadd $8, %[a3]\nadd $8, %[a6]\nadd $8, %[a9]\n"             \
      "dec %[twos]\njnz 1b\n"                                                                   \
      "2:\ntest $1, %[odd]\njz 3f\n"                                                            \
      MLA_STEP(op, "0", "0", "1024", "1088")                                                    \
      "3:\n"                                                                                    \
      "lea (%[cs],%[cs],2), %[a9]\nmov %[c], %[a]\n"                                            \
      "lea (%[a],%[a9]), %[a3]\nlea (%[a3],%[a9]), %[a6]\nadd %[a6], %[a9]\n"                   \
      "test %[add], %[add]\njz 4f\n"                                                            \
      MLA_ROWS(MLA_ADD)                                                                         \
      "4:\n"                                                                                    \
      MLA_ROWS(MLA_STORE)                                                                       \
      : [a] "+r"(a), [b] "+r"(b), [twos] "+r"(twos), [a3] "=&r"(a3), [a6] "=&r"(a6),            \
        [a9] "=&r"(a9)                                                                          \
      : [as] "r"(a_stride), [c] "r"(product.c), [cs] "r"(c_stride), [odd] "r"(product.steps),   \
        [add] "r"(static_cast<Index>(add))                                                      \
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17",         \
        "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26",        \
        "xmm27", "xmm28", "xmm29", "xmm30", "xmm31")

// clang-format on

template <class Element>
void multiply_tile_12x32(const Product<Element>& product, bool add) {
  const char* a = reinterpret_cast<const char*>(product.a);
  const char* b = reinterpret_cast<const char*>(product.b);
  const char *a3, *a6, *a9;
  const Index a_stride = product.a_stride * Index{sizeof(Element)};
  const Index c_stride = product.c_stride * Index{sizeof(float)};
  Index twos = product.steps / 2;
  if constexpr (sizeof(Element) == sizeof(float)) {
    MLA_TILE("vfmadd231ps");
  } else {
    MLA_TILE("vdpbf16ps");
  }
}

#undef MLA_ROW
#undef MLA_STEP
#undef MLA_ADD
#undef MLA_STORE
#undef MLA_ROWS
#undef MLA_TILE

}  // namespace
}  // namespace mla::attention::cpu
