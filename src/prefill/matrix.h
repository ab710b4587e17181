// The two plain products of the absorbed form, q_nope W_UK and o W_UV^T, with the weights packed
// once: by the kernels' own function where the table has one.
#pragma once

#include <cstdint>

#include "attention/cpu/kernels.h"

namespace mla::prefill {

// Bytes of the packed matrix, a multiple of 64.
std::int64_t matrix_bytes(const attention::cpu::Kernels& kernels,
                          const attention::cpu::MatrixShape& shape);
void pack_matrix(const attention::cpu::Kernels& kernels, const attention::cpu::MatrixShape& shape,
                 const attention::cpu::MatrixSource& source, void* packed);
void multiply(const attention::cpu::Kernels& kernels, const attention::cpu::MatrixShape& shape,
              const void* packed, const attention::cpu::MatrixRows& rows);

}  // namespace mla::prefill
