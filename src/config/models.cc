// The models known by name. Every figure comes from the file that the row names; "Transformers"
// is version 5.19.0, whose configuration class carries the checkpoint's values as its defaults.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "config/softmax_scale.h"
#include "mla/config.h"

namespace mla {
namespace {

// A config.json has some kilobytes; a device file may never end.
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

// std::fopen and not std::ifstream, which throws on a folder.
struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct Entry {
  std::string_view name;
  std::string_view model_type;
  MlaDims dims;
  std::int64_t kv_lora_rank;
  std::int64_t q_lora_rank;  // 0: none
  std::int64_t num_heads;
  double yarn_factor;  // 0: no yarn, or yarn without mscale_all_dim
  double mscale_all_dim;
  std::string_view source;
};

// Ordered by name. A line: name, model_type, dims, kv_lora_rank, q_lora_rank, num_heads, yarn's
// factor and mscale_all_dim; below it the source.
// clang-format off
constexpr std::array kEntries = {
    Entry{"a.x-k1", "axk1", {128, 64, 128}, 512, 1536, 64, 0, 0,
          "skt/A.X-K1: Transformers AXK1Config"},
    Entry{"deepseek-r1", "deepseek_v3", {128, 64, 128}, 512, 1536, 128, 40, 1.0,
          "deepseek-ai/DeepSeek-R1 config.json (that of DeepSeek-V3)"},
    Entry{"deepseek-v2-lite", "deepseek_v2", {128, 64, 128}, 512, 0, 16, 40, 0.707,
          "deepseek-ai/DeepSeek-V2-Lite config.json"},
    Entry{"deepseek-v3", "deepseek_v3", {128, 64, 128}, 512, 1536, 128, 40, 1.0,
          "deepseek-ai/DeepSeek-V3 config.json"},
    Entry{"deepseek-v3.2", "deepseek_v32", {128, 64, 128}, 512, 1536, 128, 40, 1.0,
          "deepseek-ai/DeepSeek-V3.2-Exp inference/config_671B_v3.2.json"},
    Entry{"glm-4.7-flash", "glm4_moe_lite", {192, 64, 256}, 512, 768, 20, 0, 0,
          "zai-org/GLM-4.7-Flash: Transformers Glm4MoeLiteConfig"},
    Entry{"glm-5", "glm_moe_dsa", {192, 64, 256}, 512, 2048, 64, 0, 0,
          "zai-org/GLM-5: Transformers GlmMoeDsaConfig"},
    Entry{"glm-5.3-flash", "glm5_next_text", {256, 0, 256}, 512, 1536, 64, 0, 0,
          "zai-org/GLM-5.3-Flash: Transformers Glm5NextTextConfig"},
    Entry{"hy4-preview", "hy_v4", {192, 64, 256}, 512, 1536, 32, 0, 0,
          "tencent/Hy4-preview: Transformers HYV4Config"},
    Entry{"kimi-k2", "kimi_k2", {128, 64, 128}, 512, 1536, 64, 64, 1.0,
          "moonshotai/Kimi-K2-Instruct-0905 config.json"},
    Entry{"kimi-linear", "kimi_linear", {128, 64, 128}, 512, 0, 32, 0, 0,
          "moonshotai/Kimi-Linear-48B-A3B-Instruct: Transformers KimiLinearConfig"},
    Entry{"longcat-flash", "longcat_flash", {128, 64, 128}, 512, 1536, 64, 0, 0,
          "meituan-longcat/LongCat-Flash-Chat: Transformers LongcatFlashConfig"},
    Entry{"minicpm3-4b", "minicpm3", {64, 32, 64}, 256, 768, 40, 0, 0,
          "openbmb/MiniCPM3-4B: Transformers MiniCPM3Config"},
    Entry{"mistral-small-4", "mistral4", {64, 64, 128}, 256, 1024, 32, 128, 1.0,
          "mistralai/Mistral-Small-4-119B-2603: Transformers Mistral4Config"},
    Entry{"youtu-llm-2b", "youtu", {128, 64, 128}, 512, 1536, 16, 0, 0,
          "tencent/Youtu-LLM-2B: Transformers YoutuConfig"},
};
// clang-format on

std::vector<NamedModel> make_models() {
  std::vector<NamedModel> models;
  for (const Entry& entry : kEntries) {
    NamedModel model{entry.name, entry.source, {}};
    model.config.model_type = entry.model_type;
    model.config.dims = entry.dims;
    model.config.kv_lora_rank = entry.kv_lora_rank;
    if (entry.q_lora_rank > 0) model.config.q_lora_rank = entry.q_lora_rank;
    model.config.num_heads = entry.num_heads;
    model.config.softmax_scale = softmax_scale(entry.dims, entry.yarn_factor, entry.mscale_all_dim);
    models.push_back(std::move(model));
  }
  return models;
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

const std::vector<NamedModel>& named_models() {
  static const std::vector<NamedModel>& models = *new std::vector<NamedModel>(make_models());
  return models;
}

const NamedModel* find_named_model(std::string_view name) {
  for (const NamedModel& model : named_models()) {
    if (same_word(model.name, name)) return &model;
  }
  return nullptr;
}

Result<ModelConfig> read_model_config(const std::string& path) {
  const auto unreadable = [&](std::string_view why) {
    return Error{ErrorCode::kNotReadable, "", fmt::format("{}: cannot be read: {}", path, why)};
  };
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return unreadable(std::strerror(errno));
  std::string text;
  std::array<char, 1 << 14> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), count);
    if (text.size() > kMaxFileBytes) return unreadable("larger than 64 MiB");
  }
  // A folder opens but does not read.
  if (std::ferror(file.get()) != 0) return unreadable(std::strerror(errno));
  return parse_model_config(text, path);
}

Result<ModelConfig> load_model(const std::string& name_or_path) {
  if (const NamedModel* model = find_named_model(name_or_path)) return model->config;
  const bool looks_like_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  std::error_code ignored;
  if (looks_like_path || std::filesystem::exists(name_or_path, ignored)) {
    return read_model_config(name_or_path);
  }
  std::vector<std::string_view> names;
  for (const NamedModel& model : named_models()) names.push_back(model.name);
  return Error{ErrorCode::kUnknownName, "model",
               fmt::format("'{}' is neither a file nor a known model; known: {}", name_or_path,
                           fmt::join(names, ", "))};
}

}  // namespace mla
