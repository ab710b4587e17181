// Runs the avx2 kernels over one head of 512 causal tokens as often as the first argument says, and
// prints the multiply-adds of a run: what instruction_count.cmake counts under callgrind.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "attention/cpu/engine.h"
#include "attention/cpu/isa/isa.h"
#include "attention/test_batch.h"

int main(int argc, char** argv) {
  using namespace mla;
  using namespace mla::attention;
  const cpu::Kernels* const kernels = cpu::find_kernels("avx2");
  if (kernels == nullptr || argc != 2) return 2;
  constexpr std::int64_t kTokens = 512;
  TestBatch batch({{kTokens}, {kTokens}, 1, 192, 128});
  batch.fill(1);
  batch.args.scale = 0.07f;
  RunOptions options;
  options.executor = &serial_executor();
  for (int i = 0; i < std::atoi(argv[1]); ++i) {
    if (!cpu::attend(*kernels, batch.args, options).ok()) return 1;
  }
  std::printf("%lld\n", static_cast<long long>(kTokens * (kTokens + 1) / 2 * (192 + 128)));
  return 0;
}
