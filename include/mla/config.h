// What is asked for: the attention problem (from a model's configuration or given by hand) and the
// policy of the choice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mla/core.h"

namespace mla {

// The attention of one model.
struct Problem {
  DType dtype = DType::kBFloat16;
  MlaDims dims;
  std::optional<std::int64_t> num_heads;
  std::optional<std::int64_t> kv_lora_rank;
  friend bool operator==(const Problem&, const Problem&) = default;
};

enum class Compat : std::uint8_t { kNone, kVllm };

// How to choose.
struct Policy {
  std::string backend;    // explicit choice, "NAME" or "NAME:variant"; empty: automatic
  bool fallback = false;  // an explicit choice that is not valid goes on with the automatic order
  Compat compat = Compat::kNone;
  std::vector<std::string> disabled;       // backend names
  std::vector<std::string> unloadable;     // simulates a library that does not load
  std::vector<std::string> not_installed;  // loads, but what it depends on is absent
  friend bool operator==(const Policy&, const Policy&) = default;
};

// What a Hugging Face config.json says about a model's attention.
struct ModelConfig {
  std::string model_type;  // empty where the file has none
  MlaDims dims;
  std::int64_t kv_lora_rank = 0;
  std::optional<std::int64_t> q_lora_rank;
  std::int64_t num_heads = 0;
  DType dtype = DType::kBFloat16;
  double softmax_scale = 0.0;  // (nope+rope)^-0.5, times mscale^2 where yarn sets mscale_all_dim
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;

  Problem problem() const { return {dtype, dims, num_heads, kv_lora_rank}; }
};

// Errors name the field in Error::field and, in the message, `source` (a path, "--model", ...):
// kNotJson, kNotMla, kMissingField, kWrongType, kOutOfRange; read_model_config also kNotReadable.
MLA_API Result<ModelConfig> parse_model_config(std::string_view json, std::string_view source);
MLA_API Result<ModelConfig> read_model_config(const std::string& path);

// A model known by name, with where its numbers come from.
struct NamedModel {
  std::string_view name;    // "deepseek-v3"
  std::string_view source;  // "deepseek-ai/DeepSeek-V3 config.json"
  ModelConfig config;
};

// All of them, ordered by name.
MLA_API const std::vector<NamedModel>& named_models();
// Null where there is none of that name (case-insensitive).
MLA_API const NamedModel* find_named_model(std::string_view name);
// A name above or the path of a config.json; kUnknownName lists the names when it is neither.
MLA_API Result<ModelConfig> load_model(const std::string& name_or_path);

}  // namespace mla
