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
  // Names of backends, or of single rows ("CPU:avx2"); a name that no row has changes nothing.
  std::vector<std::string> disabled;
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
// One JSON answer without a line end: {"dims": [nope, rope, v], "kv_lora_rank", "q_lora_rank",
// "num_heads", "dtype", "softmax_scale", "error"}. On an error the others are null and error is
// {"code", "field", "message"}, field null where no single field is at fault.
MLA_API std::string to_json(const Result<ModelConfig>& config);
// to_json of what parse_model_config makes of a text. Never fails.
MLA_API std::string model_config_json(std::string_view json);

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
// A name above or the path of a config.json. Of what is neither a name nor a file: kNotReadable
// where it has a '/' or ends in .json, else kUnknownName, which lists the names.
MLA_API Result<ModelConfig> load_model(const std::string& name_or_path);

}  // namespace mla
