// The implementations that the operator's tests run on: every CPU table of this build that this
// machine can run.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "attention/cpu/kernels.h"
#include "attention/cpu/row.h"
#include "mla/attention.h"
#include "mla/platform.h"

namespace mla::prefill {

struct TestRow {
  std::string name;
  std::shared_ptr<const attention::Implementation> implementation;
  friend std::ostream& operator<<(std::ostream& out, const TestRow& row) { return out << row.name; }
};

inline bool machine_has(const std::vector<std::string>& needed) {
  const IsaSet& isa = this_machine().cpu.isa;
  for (const std::string& feature : needed) {
    if (std::find(isa.begin(), isa.end(), feature) == isa.end()) return false;
  }
  return true;
}

inline std::vector<TestRow> test_rows() {
  const struct {
    const char* name;
    std::vector<std::string> needed;
  } tables[] = {{"portable", {}},
                {"avx2", {"avx2", "fma", "f16c"}},
                {"avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
                {"avx512_bf16", {"avx512f", "avx512_bf16"}},
                {"amx", {"amx_tile", "amx_bf16", "avx512_bf16"}},
                {"neon", {"neon"}}};
  std::vector<TestRow> rows;
  for (const auto& table : tables) {
    if (!machine_has(table.needed)) continue;
    auto implementation = attention::cpu::make_implementation(table.name);
    if (implementation != nullptr) rows.push_back({table.name, std::move(implementation)});
  }
  return rows;
}

}  // namespace mla::prefill
