// Reads what attention needs from a Hugging Face config.json. A multimodal model keeps it in
// text_config; dtype was called torch_dtype and rope_parameters rope_scaling before Transformers 5.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "config/json.h"
#include "config/softmax_scale.h"
#include "mla/config.h"

namespace mla {
namespace {

// Far above every model, far below an overflow of any product of two sizes.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 20;

bool has_mla_fields(const json::Value& object) {
  constexpr std::array kMarks = {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"};
  for (const char* mark : kMarks) {
    if (json::find(object, mark) != nullptr) return true;
  }
  return false;
}

// Looks a field up in the part that describes the text model, then in the file as a whole.
class Reader {
 public:
  Reader(const json::Value& text, const json::Value& top) : text_(text), top_(top) {}

  const json::Value* find(std::string_view key) const {
    const json::Value* value = json::find(text_, key);
    return value != nullptr ? value : json::find(top_, key);
  }

  Result<std::int64_t> required(const std::string& key, std::int64_t min) const {
    const json::Value* value = find(key);
    if (value == nullptr) {
      return Error{ErrorCode::kMissingField, key, fmt::format("{} is missing", key)};
    }
    return json::integer(*value, key, {min, kMaxSize});
  }

 private:
  const json::Value& text_;
  const json::Value& top_;
};

struct Yarn {
  double factor = 1.0;
  double mscale_all_dim = 0.0;
};

// What the kind of rope is called: rope_type, before that type; empty where it is not said.
Result<std::string> rope_type(const json::Value& rope, const std::string& name) {
  for (const char* key : {"rope_type", "type"}) {
    if (const json::Value* type = json::find(rope, key)) {
      return json::string(*type, name + "." + key);
    }
  }
  return std::string();
}

Result<double> required_number(const json::Value& rope, const std::string& field,
                               std::string_view key) {
  const json::Value* value = json::find(rope, key);
  if (value != nullptr) return json::number(*value, field);
  return Error{ErrorCode::kMissingField, field,
               fmt::format("{} is missing; mscale_all_dim needs it", field)};
}

// rope_scaling counts before rope_parameters, as in Transformers. Only yarn with mscale_all_dim
// changes the softmax scale.
Result<Yarn> read_yarn(const Reader& reader) {
  std::string name = "rope_scaling";
  const json::Value* rope = reader.find(name);
  if (rope == nullptr) {
    name = "rope_parameters";
    rope = reader.find(name);
  }
  if (rope == nullptr) return Yarn{};
  if (!rope->is_object()) return json::wrong_type(*rope, name, "an object");

  Result<std::string> type = rope_type(*rope, name);
  if (!type) return type.error();
  if (*type != "yarn" && *type != "deepseek_yarn") return Yarn{};
  const json::Value* all_dim = json::find(*rope, "mscale_all_dim");
  if (all_dim == nullptr) return Yarn{};
  Result<double> mscale_all_dim = json::number(*all_dim, name + ".mscale_all_dim");
  if (!mscale_all_dim) return mscale_all_dim.error();
  const std::string factor_field = name + ".factor";
  Result<double> factor = required_number(*rope, factor_field, "factor");
  if (!factor) return factor.error();
  if (!(*factor > 0.0)) {
    return Error{ErrorCode::kOutOfRange, factor_field,
                 fmt::format("{} must be above 0, got {}", factor_field, *factor)};
  }
  return Yarn{*factor, *mscale_all_dim};
}

// MLA checkpoints are bfloat16 unless they say otherwise.
Result<DType> read_dtype(const Reader& reader) {
  std::string field = "dtype";
  const json::Value* value = reader.find(field);
  if (value == nullptr) {
    field = "torch_dtype";
    value = reader.find(field);
  }
  if (value == nullptr) return DType::kBFloat16;
  Result<std::string> text = json::string(*value, field);
  if (!text) return text.error();
  const std::optional<DType> dtype = parse_dtype(*text);
  if (!dtype) {
    return Error{ErrorCode::kWrongType, field,
                 fmt::format("{} must be float32, float16, bfloat16 or float8_e4m3, got '{}'",
                             field, *text)};
  }
  return *dtype;
}

Result<std::int64_t> read_v_head_dim(const Reader& reader, std::string_view model_type) {
  const std::string field = "v_head_dim";
  if (model_type == "minicpm3" && reader.find(field) == nullptr) {
    // Its checkpoints leave the field out; Transformers' MiniCPM3Config fills it in like this.
    Result<std::int64_t> hidden = reader.required("hidden_size", 1);
    if (!hidden) return hidden;
    Result<std::int64_t> heads = reader.required("num_attention_heads", 1);
    if (!heads) return heads;
    if (*hidden >= *heads) return *hidden / *heads;
  }
  return reader.required(field, 1);
}

Status read_dims(const Reader& reader, ModelConfig& config) {
  Result<std::int64_t> nope = reader.required("qk_nope_head_dim", 1);
  if (!nope) return nope.error();
  Result<std::int64_t> rope = reader.required("qk_rope_head_dim", 0);
  if (!rope) return rope.error();
  Result<std::int64_t> v = read_v_head_dim(reader, config.model_type);
  if (!v) return v.error();
  config.dims = {*nope, *rope, *v};
  return {};
}

Status read_ranks(const Reader& reader, ModelConfig& config) {
  Result<std::int64_t> kv_lora_rank = reader.required("kv_lora_rank", 1);
  if (!kv_lora_rank) return kv_lora_rank.error();
  config.kv_lora_rank = *kv_lora_rank;
  if (const json::Value* value = reader.find("q_lora_rank")) {
    Result<std::int64_t> q_lora_rank = json::integer(*value, "q_lora_rank", {1, kMaxSize});
    if (!q_lora_rank) return q_lora_rank.error();
    config.q_lora_rank = *q_lora_rank;
  }
  Result<std::int64_t> heads = reader.required("num_attention_heads", 1);
  if (!heads) return heads.error();
  config.num_heads = *heads;
  return {};
}

Result<ModelConfig> read(const json::Value& top) {
  if (!top.is_object()) {
    return Error{ErrorCode::kWrongType, "",
                 fmt::format("the configuration must be an object, got {}", json::type_name(top))};
  }
  const json::Value* text = &top;
  if (!has_mla_fields(top)) {
    text = json::find(top, "text_config");
    if (text != nullptr && !text->is_object()) {
      return json::wrong_type(*text, "text_config", "an object");
    }
    if (text == nullptr || !has_mla_fields(*text)) {
      return Error{ErrorCode::kNotMla, "",
                   "not an MLA model: neither the top level nor text_config has kv_lora_rank, "
                   "qk_nope_head_dim or qk_rope_head_dim"};
    }
  }
  const Reader reader(*text, top);
  ModelConfig config;
  const json::Value* model_type = json::find(*text, "model_type");
  if (model_type != nullptr && model_type->is_string()) {
    config.model_type = model_type->get<std::string>();
  }
  if (Status status = read_dims(reader, config); !status) return status.error();
  if (Status status = read_ranks(reader, config); !status) return status.error();
  Result<DType> dtype = read_dtype(reader);
  if (!dtype) return dtype.error();
  config.dtype = *dtype;
  Result<Yarn> yarn = read_yarn(reader);
  if (!yarn) return yarn.error();
  config.softmax_scale = softmax_scale(config.dims, yarn->factor, yarn->mscale_all_dim);
  // Attention takes it as a float.
  if (!(config.softmax_scale <= static_cast<double>(std::numeric_limits<float>::max()))) {
    return Error{ErrorCode::kOutOfRange, "mscale_all_dim",
                 fmt::format("mscale_all_dim {} makes the softmax scale more than a float can hold",
                             yarn->mscale_all_dim)};
  }
  return config;
}

json::Answer to_answer(const ModelConfig& config) {
  json::Answer answer;
  answer["dims"] = {config.dims.qk_nope_head_dim, config.dims.qk_rope_head_dim,
                    config.dims.v_head_dim};
  answer["kv_lora_rank"] = config.kv_lora_rank;
  answer["q_lora_rank"] =
      config.q_lora_rank ? json::Answer(*config.q_lora_rank) : json::Answer(nullptr);
  answer["num_heads"] = config.num_heads;
  answer["dtype"] = name(config.dtype);
  answer["softmax_scale"] = config.softmax_scale;
  answer["error"] = nullptr;
  return answer;
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view text, std::string_view source) {
  const Result<json::Value> value = json::parse(text);
  Result<ModelConfig> config = value ? read(*value) : value.error();
  if (config || source.empty()) return config;
  Error error = config.error();
  error.message = fmt::format("{}: {}", source, error.message);
  return error;
}

std::string to_json(const Result<ModelConfig>& config) {
  if (config) return json::dump(to_answer(*config));
  json::Answer answer;
  for (const char* field :
       {"dims", "kv_lora_rank", "q_lora_rank", "num_heads", "dtype", "softmax_scale"}) {
    answer[field] = nullptr;
  }
  const Error& error = config.error();
  answer["error"] = {
      {"code", name(error.code)},
      {"field", error.field.empty() ? json::Answer(nullptr) : json::Answer(error.field)},
      {"message", error.message}};
  return json::dump(answer);
}

std::string model_config_json(std::string_view text) {
  return to_json(parse_model_config(text, ""));
}

}  // namespace mla
