// The full tile of the NEON Isa types, 6 rows by 16 columns, in assembly because g++ 12 spills more
// than it multiplies: accumulators v0 to v23, row r's in v(4r) on; A in v24 to v29, four steps a
// load; B in v30 and v31. A step is 4 vectors of B and 24 multiply-adds by a word of A: a float
// (fmla) or a pair of bf16 (bfdot). B is fetched 1 KiB before it is needed.
#pragma once

#include "attention/cpu/panels.h"

namespace mla::attention::cpu {
namespace {

template <class Element>
void multiply_tile_6x16(const Product<Element>& product, bool add) {
  const Index a_stride = product.a_stride * Index{sizeof(Element)};
  const Index c_stride = product.c_stride * Index{sizeof(float)};
  const char* a0 = reinterpret_cast<const char*>(product.a);
  const char *a1 = a0 + a_stride, *a2 = a1 + a_stride, *a3 = a2 + a_stride, *a4 = a3 + a_stride,
             *a5 = a4 + a_stride;
  const char* b = reinterpret_cast<const char*>(product.b);
  float* c = product.c;
  Index fours = product.steps / 4;
  Index ones = product.steps % 4;
  asm volatile(
      ".macro mla_multiply_add c, b, a, lane\n.if %c[pairs]\n"
      "bfdot v\\c\\().4s, v\\b\\().8h, v\\a\\().2h[\\lane]\n.else\n"
      "fmla v\\c\\().4s, v\\b\\().4s, v\\a\\().s[\\lane]\n.endif\n.endm\n"
      ".macro mla_column b, lane, c0, c1, c2, c3, c4, c5\n"
      "mla_multiply_add \\c0, \\b, 24, \\lane\nmla_multiply_add \\c1, \\b, 25, \\lane\n"
      "mla_multiply_add \\c2, \\b, 26, \\lane\nmla_multiply_add \\c3, \\b, 27, \\lane\n"
      "mla_multiply_add \\c4, \\b, 28, \\lane\nmla_multiply_add \\c5, \\b, 29, \\lane\n.endm\n"
      ".macro mla_step lane\n"
      "ldp q30, q31, [%[b]], #32\n"
      "mla_column 30, \\lane, 0, 4, 8, 12, 16, 20\nmla_column 31, \\lane, 1, 5, 9, 13, 17, 21\n"
      "ldp q30, q31, [%[b]], #32\nprfm pldl1keep, [%[b], #1024]\n"
      "mla_column 30, \\lane, 2, 6, 10, 14, 18, 22\n"
      "mla_column 31, \\lane, 3, 7, 11, 15, 19, 23\n.endm\n"
      ".macro mla_load q, bytes\n"
      "ldr \\q\\()24, [%[a0]], \\bytes\nldr \\q\\()25, [%[a1]], \\bytes\n"
      "ldr \\q\\()26, [%[a2]], \\bytes\nldr \\q\\()27, [%[a3]], \\bytes\n"
      "ldr \\q\\()28, [%[a4]], \\bytes\nldr \\q\\()29, [%[a5]], \\bytes\n.endm\n"
      ".macro mla_store c0, c1, c2, c3\n"
      "cbz %[add], 9f\n"
      "ldp q24, q25, [%[c]]\nldp q26, q27, [%[c], #32]\n"
      "fadd v\\c0\\().4s, v\\c0\\().4s, v24.4s\nfadd v\\c1\\().4s, v\\c1\\().4s, v25.4s\n"
      "fadd v\\c2\\().4s, v\\c2\\().4s, v26.4s\nfadd v\\c3\\().4s, v\\c3\\().4s, v27.4s\n"
      "9:\nstp q\\c0, q\\c1, [%[c]]\nstp q\\c2, q\\c3, [%[c], #32]\nadd %[c], %[c], %[cs]\n.endm\n"

      ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "movi v\\r\\().4s, #0\n.endr\n"
      "cbz %[fours], 2f\n"
      "1:\nmla_load q, 16\nmla_step 0\nmla_step 1\nmla_step 2\nmla_step 3\n"
      "subs %[fours], %[fours], #1\nb.ne 1b\n"
      "2:\ncbz %[ones], 4f\n"
      "3:\nmla_load s, 4\nmla_step 0\nsubs %[ones], %[ones], #1\nb.ne 3b\n"
      "4:\n"
      "mla_store 0, 1, 2, 3\nmla_store 4, 5, 6, 7\nmla_store 8, 9, 10, 11\n"
      "mla_store 12, 13, 14, 15\nmla_store 16, 17, 18, 19\nmla_store 20, 21, 22, 23\n"

      ".purgem mla_multiply_add\n.purgem mla_column\n.purgem mla_step\n.purgem mla_load\n"
      ".purgem mla_store\n"
      : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4), [a5] "+r"(a5),
        [b] "+r"(b), [fours] "+r"(fours), [ones] "+r"(ones), [c] "+r"(c)
      : [cs] "r"(c_stride), [add] "r"(static_cast<Index>(add)),
        [pairs] "i"(sizeof(Element) == sizeof(float) ? 0 : 1)
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
        "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

}  // namespace
}  // namespace mla::attention::cpu
