// The built-in rows: THE table of what each backend needs, as data. Source of the GPU rows: vLLM
// 0.32, vllm/v1/attention/backends/mla/prefill/ (Apache-2.0). The order within a backend is best
// first; the order of choice is src/selector/priority.cc. This is the one place that names the
// kernels of the CPU rows.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "attention/cpu/row.h"
#include "mla/platform.h"
#include "mla/registry.h"

namespace mla {
namespace {

constexpr MlaDims kDeepSeek{128, 64, 128};
constexpr MlaDims kGlm5{192, 64, 256};
constexpr MlaDims kMistral4{64, 64, 128};
constexpr MlaDims kGlm5Next{256, 0, 256};

constexpr Requirements::CapabilityRange kBlackwell{10, 10};
constexpr Requirements::CapabilityRange kAmpereOn{8, std::numeric_limits<int>::max()};

std::vector<DType> halves() { return {DType::kFloat16, DType::kBFloat16}; }
std::vector<DType> floats() { return {DType::kFloat32, DType::kFloat16, DType::kBFloat16}; }

// A wider set includes the narrower ones: the wider kernels convert float16 and handle tails with
// them.
IsaSet with(IsaSet isa, const IsaSet& more) {
  isa.insert(isa.end(), more.begin(), more.end());
  std::ranges::sort(isa);
  return isa;
}
IsaSet avx2() { return {"avx2", "f16c", "fma"}; }
IsaSet avx512() { return with(avx2(), {"avx512bw", "avx512dq", "avx512f", "avx512vl"}); }
IsaSet avx512_bf16() { return with(avx512(), {"avx512_bf16"}); }
IsaSet amx() { return with(avx512_bf16(), {"amx_bf16", "amx_tile"}); }

Row gpu_row(std::string backend, std::string description, Requirements needs) {
  Row row{std::move(backend), "", std::move(description), std::move(needs), "", {}, nullptr};
  row.probe_library = [] {
    return std::string("nothing in this process runs it; load_plugin or override_backend adds it");
  };
  return row;
}

// The rows of selection are one for all arm64 CPUs: which of its kernels run is up to the CPU.
std::shared_ptr<const attention::Implementation> kernels_of(std::string_view variant) {
  auto kernels = attention::cpu::make_implementation(variant);
  if (variant == "neon" && kernels != nullptr) {
    const IsaSet& has = this_machine().cpu.isa;
    if (std::ranges::find(has, "bf16") != has.end()) {
      return attention::cpu::make_implementation("neon_bf16");
    }
  }
  return kernels;
}

Row cpu_row(std::string_view backend, std::string_view variant, std::string_view description,
            IsaSet isa) {
  Row row;
  row.backend = backend;
  row.variant = variant;
  row.description = description;
  row.needs.devices = {DeviceKind::kCpu};
  row.needs.isa = std::move(isa);
  row.needs.dtypes = floats();
  row.implementation = kernels_of(variant);
  if (row.implementation == nullptr) {
    row.probe_library = [name = row.full_name()] {
      return fmt::format("this build has no kernels for {}", name);
    };
  }
  return row;
}

Row plain_cpu_row(std::string_view variant, std::string_view description, IsaSet isa) {
  Row row = cpu_row("CPU", variant, description, std::move(isa));
  row.needs.max_head_dim = 1024;
  return row;
}

// Zen 2 on, by family and model: the Zens before have half-width AVX2.
Row zen_row(std::string_view variant, std::string_view description, IsaSet isa) {
  Row row = cpu_row("ZEN_CPU", variant, description, std::move(isa));
  row.needs.cpu_vendor = "AuthenticAMD";
  row.needs.min_cpu_family = 0x17;
  row.needs.min_cpu_model = 0x30;
  return row;
}

Requirements cuda_needs(std::vector<Requirements::CapabilityRange> capabilities,
                        std::vector<MlaDims> dims) {
  Requirements needs;
  needs.devices = {DeviceKind::kCuda};
  needs.capabilities = std::move(capabilities);
  needs.dtypes = halves();
  needs.dims = std::move(dims);
  return needs;
}

Requirements flash_attn_needs() {
  Requirements needs = cuda_needs({kAmpereOn}, {kDeepSeek, kGlm5, kMistral4, kGlm5Next});
  needs.devices = {DeviceKind::kCuda, DeviceKind::kRocm};
  needs.unknown_capability = true;
  return needs;
}

Requirements aiter_needs() {
  Requirements needs;
  needs.devices = {DeviceKind::kRocm};
  needs.archs = {"gfx942", "gfx950"};
  needs.dtypes = halves();
  return needs;
}

std::vector<Row> gpu_rows() {
  std::vector<Row> rows = {
      gpu_row("FLASH_ATTN", "FlashAttention 2 to 4 (flash-attn, vllm-flash-attn)",
              flash_attn_needs()),
      gpu_row("FLASHINFER", "FlashInfer's ragged prefill (flashinfer)",
              cuda_needs({kBlackwell}, {kDeepSeek})),
      gpu_row("TRTLLM_RAGGED", "TensorRT-LLM's ragged prefill (flashinfer, trtllm-gen kernels)",
              cuda_needs({kBlackwell}, {kDeepSeek, kGlm5})),
      gpu_row("TOKENSPEED_MLA", "TokenSpeed's MLA prefill (tokenspeed-mla)",
              cuda_needs({kBlackwell}, {kDeepSeek})),
      gpu_row("ROCM_AITER_FA", "FlashAttention of AMD's AITER (aiter)", aiter_needs())};
  for (Row& row : rows) {
    if (row.backend != "TOKENSPEED_MLA") continue;
    row.dependency_hint =
        "tokenspeed_mla package is not installed. Install it with: `uv pip install tokenspeed-mla`";
  }
  return rows;
}

std::vector<Row> make_rows() {
  std::vector<Row> rows = gpu_rows();
  const std::array cpu_rows = {
      plain_cpu_row("amx", "AMX tiles and AVX-512 (Sapphire Rapids on)", amx()),
      plain_cpu_row("avx512_bf16", "AVX-512 with bfloat16 dot products (Cooper Lake, Zen 4 on)",
                    avx512_bf16()),
      plain_cpu_row("avx512", "AVX-512 (Skylake-SP, Zen 4 on)", avx512()),
      plain_cpu_row("avx2", "AVX2 and FMA (Haswell, Zen on)", avx2()),
      plain_cpu_row("neon", "Arm NEON, BFDOT for bfloat16 where it is there (any arm64)", {"neon"}),
      plain_cpu_row("portable", "plain C++, any CPU", {}),
      zen_row("avx512_bf16", "kernels and tuning of CPU:avx512_bf16 (AMD Zen 4 on)", avx512_bf16()),
      zen_row("avx2", "kernels and tuning of CPU:avx2 (AMD Zen 2 on)", avx2())};
  rows.insert(rows.end(), cpu_rows.begin(), cpu_rows.end());
  return rows;
}

}  // namespace

const std::vector<Row>& builtin_rows() {
  static const std::vector<Row>& rows = *new std::vector<Row>(make_rows());
  return rows;
}

}  // namespace mla
