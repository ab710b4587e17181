// Element types: their names, aliases and sizes.
#include <array>

#include "mla/core.h"

namespace mla {
namespace {

struct Alias {
  std::string_view text;
  DType dtype;
};

constexpr std::array kAliases = {Alias{"float32", DType::kFloat32},
                                 Alias{"f32", DType::kFloat32},
                                 Alias{"fp32", DType::kFloat32},
                                 Alias{"float", DType::kFloat32},
                                 Alias{"float16", DType::kFloat16},
                                 Alias{"f16", DType::kFloat16},
                                 Alias{"fp16", DType::kFloat16},
                                 Alias{"half", DType::kFloat16},
                                 Alias{"bfloat16", DType::kBFloat16},
                                 Alias{"bf16", DType::kBFloat16},
                                 Alias{"float8_e4m3", DType::kFloat8E4M3},
                                 Alias{"fp8_e4m3", DType::kFloat8E4M3},
                                 Alias{"float8_e4m3fn", DType::kFloat8E4M3}};

}  // namespace

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat8E4M3:
      return "float8_e4m3";
  }
  return "invalid";
}

std::optional<DType> parse_dtype(std::string_view text) {
  constexpr std::string_view kTorch = "torch.";
  if (text.starts_with(kTorch)) text.remove_prefix(kTorch.size());
  for (const Alias& alias : kAliases) {
    if (alias.text == text) return alias.dtype;
  }
  return std::nullopt;
}

std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kFloat8E4M3:
      return 1;
  }
  return 0;
}

}  // namespace mla
