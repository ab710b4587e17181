// The reader of config.json against the case file, and every edge it does not hold.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "mla/config.h"

namespace mla {
namespace {

using Json = nlohmann::json;

std::vector<Json> read_cases() {
  std::ifstream file(MLA_TEST_DATA "/models.jsonl");
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));
  return cases;
}

class ModelCase : public testing::TestWithParam<Json> {};

TEST_P(ModelCase, AnswersAsExpected) {
  const Json answer = Json::parse(model_config_json(GetParam()["config"].dump()));
  if (GetParam().contains("error")) {
    EXPECT_EQ(answer["error"]["code"], GetParam()["error"]["code"]) << answer;
    EXPECT_EQ(answer["error"]["field"], GetParam()["error"]["field"]) << answer;
    EXPECT_TRUE(answer["dims"].is_null());
    return;
  }
  EXPECT_TRUE(answer["error"].is_null()) << answer;
  for (const auto& [field, value] : GetParam()["expect"].items()) {
    if (field == "softmax_scale") {
      EXPECT_NEAR(answer[field].get<double>(), value.get<double>(), 1e-15);
    } else {
      EXPECT_EQ(answer[field], value) << field;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(File, ModelCase, testing::ValuesIn(read_cases()),
                         [](const testing::TestParamInfo<Json>& info) {
                           return info.param["name"].get<std::string>();
                         });

TEST(ModelCases, AreAllThere) { EXPECT_EQ(read_cases().size(), 26u); }

Json deepseek() {
  return Json::parse(R"({"model_type": "deepseek_v3", "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "num_attention_heads": 128, "dtype": "bfloat16"})");
}

Json with(std::string_view key, Json value) {
  Json config = deepseek();
  config[std::string(key)] = std::move(value);
  return config;
}

Json without(std::string_view key) {
  Json config = deepseek();
  config.erase(std::string(key));
  return config;
}

struct Bad {
  Json config;
  ErrorCode code;
  std::string field;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.config; }

class BadConfig : public testing::TestWithParam<Bad> {};

TEST_P(BadConfig, NamesFieldAndFile) {
  const Result<ModelConfig> config = parse_model_config(GetParam().config.dump(), "x/config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().code, GetParam().code) << config.error().message;
  EXPECT_EQ(config.error().field, GetParam().field);
  EXPECT_TRUE(config.error().message.starts_with("x/config.json: ")) << config.error().message;
  EXPECT_NE(config.error().message.find(GetParam().field), std::string::npos);
}

Json yarn(Json rope) { return with("rope_scaling", std::move(rope)); }

std::vector<Bad> bad_configs() {
  using enum ErrorCode;
  std::vector<Bad> cases;
  for (const char* field : {"qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank",
                            "num_attention_heads"}) {
    cases.push_back({without(field), kMissingField, field});
    cases.push_back({with(field, nullptr), kMissingField, field});
    for (const Json& value : {Json("64"), Json(true), Json(64.0), Json::array(), Json::object()}) {
      cases.push_back({with(field, value), kWrongType, field});
    }
    // 1e20 is what an integer of more than 64 bits is read as.
    for (const Json& value : {Json(-1), Json(std::int64_t{1} << 40), Json(~std::uint64_t{0}),
                              Json(1e20), Json(-1e20)}) {
      cases.push_back({with(field, value), kOutOfRange, field});
    }
    if (field != std::string("qk_rope_head_dim")) {
      cases.push_back({with(field, 0), kOutOfRange, field});
    }
  }
  cases.push_back({with("q_lora_rank", "1536"), kWrongType, "q_lora_rank"});
  cases.push_back({with("q_lora_rank", 0), kOutOfRange, "q_lora_rank"});
  cases.push_back({with("dtype", 16), kWrongType, "dtype"});
  cases.push_back({with("dtype", "float64"), kWrongType, "dtype"});
  Json old = without("dtype");
  old["torch_dtype"] = "int8";
  cases.push_back({old, kWrongType, "torch_dtype"});
  cases.push_back({with("rope_scaling", "yarn"), kWrongType, "rope_scaling"});
  cases.push_back({with("rope_parameters", 1), kWrongType, "rope_parameters"});
  cases.push_back({yarn({{"type", 1}}), kWrongType, "rope_scaling.type"});
  cases.push_back({yarn({{"rope_type", 1}}), kWrongType, "rope_scaling.rope_type"});
  cases.push_back(
      {yarn({{"type", "yarn"}, {"mscale_all_dim", 1.0}}), kMissingField, "rope_scaling.factor"});
  cases.push_back({yarn({{"type", "yarn"}, {"mscale_all_dim", "1"}, {"factor", 40}}), kWrongType,
                   "rope_scaling.mscale_all_dim"});
  cases.push_back({yarn({{"type", "yarn"}, {"mscale_all_dim", 1}, {"factor", "40"}}), kWrongType,
                   "rope_scaling.factor"});
  cases.push_back({yarn({{"type", "yarn"}, {"mscale_all_dim", 1}, {"factor", 0}}), kOutOfRange,
                   "rope_scaling.factor"});
  for (const double huge : {1e300, 1e25}) {  // beyond double, beyond the float attention takes
    cases.push_back({yarn({{"type", "yarn"}, {"mscale_all_dim", huge}, {"factor", 40}}),
                     kOutOfRange, "mscale_all_dim"});
  }
  cases.push_back({Json(5), kWrongType, ""});
  cases.push_back({Json(nullptr), kWrongType, ""});
  cases.push_back({Json::object(), kNotMla, ""});
  cases.push_back({Json{{"v_head_dim", 128}}, kNotMla, ""});
  cases.push_back({Json{{"text_config", 5}}, kWrongType, "text_config"});
  cases.push_back({Json{{"text_config", {{"model_type", "llama"}}}}, kNotMla, ""});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, BadConfig, testing::ValuesIn(bad_configs()));

TEST(ModelConfig, BrokenJson) {
  for (const char* text : {"", "{", "{\"kv_lora_rank\": }", "{} {}", "nul", "\xff", "[1e999]",
                           "{\"kv_lora_rank\": 512,}"}) {
    const Result<ModelConfig> config = parse_model_config(text, "");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.error().code, ErrorCode::kNotJson) << text;
  }
}

TEST(ModelConfig, DeepNestingIsNoStackOverflow) {
  const std::string deep(1 << 20, '[');
  EXPECT_EQ(parse_model_config(deep, "").error().code, ErrorCode::kNotJson);
  EXPECT_EQ(parse_model_config(deep + std::string(1 << 20, ']'), "").error().code,
            ErrorCode::kWrongType);
}

TEST(ModelConfig, NotJsonTellsWhere) {
  EXPECT_EQ(parse_model_config("{\n  \"a\": 1,\n  b\n}", "").error().message,
            "not valid JSON at line 3, column 3");
  EXPECT_EQ(parse_model_config("x", "").error().message, "not valid JSON at line 1, column 1");
  for (const char* text : {"", "{", "{\"a\": [1, 2", "\"text"}) {
    const std::string message = parse_model_config(text, "").error().message;
    EXPECT_NE(message.find("ends too early"), std::string::npos) << text << ": " << message;
  }
}

double scale_of(const Json& config) {
  const Result<ModelConfig> result = parse_model_config(config.dump(), "");
  EXPECT_TRUE(result.ok());
  return result.ok() ? result->softmax_scale : 0.0;
}

TEST(ModelConfig, YarnChangesTheScaleOnlyWithMscaleAllDim) {
  const double plain = std::pow(192.0, -0.5);
  const double mscale = 0.1 * 0.5 * std::log(40.0) + 1.0;
  EXPECT_DOUBLE_EQ(scale_of(yarn({{"rope_type", "yarn"}, {"factor", 40}, {"mscale_all_dim", 0.5}})),
                   plain * mscale * mscale);
  EXPECT_DOUBLE_EQ(scale_of(yarn({{"type", "yarn"}, {"factor", 40}, {"mscale", 0.5}})), plain);
  EXPECT_DOUBLE_EQ(scale_of(yarn({{"type", "yarn"}, {"factor", 40}, {"mscale_all_dim", 0}})),
                   plain);
  EXPECT_DOUBLE_EQ(scale_of(yarn({{"type", "yarn"}, {"factor", 1}, {"mscale_all_dim", 1}})), plain);
  EXPECT_DOUBLE_EQ(scale_of(yarn({{"type", "linear"}, {"factor", 40}, {"mscale_all_dim", 1}})),
                   plain);
  EXPECT_DOUBLE_EQ(scale_of(yarn({{"factor", 40}, {"mscale_all_dim", 1}})), plain);
}

TEST(ModelConfig, RopeScalingCountsBeforeRopeParameters) {
  Json config = yarn({{"type", "yarn"}, {"factor", 40}, {"mscale_all_dim", 1}});
  const double scaled = scale_of(config);
  config["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_EQ(scale_of(config), scaled);
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(scale_of(config), std::pow(192.0, -0.5));
}

TEST(ModelConfig, TextConfigTakesWhatItLacksFromTheTop) {
  Json config = {
      {"text_config", without("dtype")}, {"torch_dtype", "float16"}, {"num_attention_heads", 3}};
  const Result<ModelConfig> result = parse_model_config(config.dump(), "");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->dtype, DType::kFloat16);
  EXPECT_EQ(result->num_heads, 128);
  EXPECT_EQ(result->model_type, "deepseek_v3");
}

TEST(ModelConfig, DtypeCountsBeforeTorchDtypeAndTakesAliases) {
  Json config = with("dtype", "torch.float16");
  config["torch_dtype"] = "float32";
  EXPECT_EQ(parse_model_config(config.dump(), "")->dtype, DType::kFloat16);
}

TEST(ModelConfig, MiniCpm3LeavesVHeadDimOut) {
  const Json config = Json::parse(R"({"model_type": "minicpm3", "hidden_size": 2560,
    "num_attention_heads": 40, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
    "kv_lora_rank": 256, "q_lora_rank": 768, "torch_dtype": "bfloat16"})");
  const Result<ModelConfig> result = parse_model_config(config.dump(), "");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->dims, (MlaDims{64, 32, 64}));
}

TEST(ModelConfig, ReadsFilesAndSaysWhichOneItCannot) {
  const auto folder = std::filesystem::temp_directory_path() / "mla_config_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "config.json").string();
  std::ofstream(path) << deepseek();
  EXPECT_EQ(read_model_config(path)->num_heads, 128);
  EXPECT_EQ(load_model(path)->num_heads, 128);
  for (const std::string& bad : {folder.string(), path + ".absent", std::string("")}) {
    const Result<ModelConfig> result = read_model_config(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.error().code, ErrorCode::kNotReadable);
    EXPECT_NE(result.error().message.find(bad), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST(NamedModels, AgreeWithTheCaseFile) {
  for (const Json& c : read_cases()) {
    if (!c.contains("expect")) continue;
    const std::string name = c["name"];
    const std::string known = name == "deepseek_v3_yarn"   ? "deepseek-v3"
                              : name == "deepseek_v2_lite" ? "deepseek-v2-lite"
                              : name == "glm_moe_dsa"      ? "glm-5"
                              : name == "mistral4"         ? "mistral-small-4"
                              : name == "minicpm3"         ? "minicpm3-4b"
                              : name == "kimi_linear"      ? "kimi-linear"
                              : name == "longcat_flash"    ? "longcat-flash"
                              : name == "axk1"             ? "a.x-k1"
                              : name == "glm5_next"        ? "glm-5.3-flash"
                                                           : "";
    if (known.empty()) continue;
    const NamedModel* model = find_named_model(known);
    ASSERT_NE(model, nullptr) << known;
    const Result<ModelConfig> read = parse_model_config(c["config"].dump(), "");
    EXPECT_EQ(model->config, *read) << known;
  }
}

TEST(NamedModels, AreOrderedSourcedAndFoundInAnyCase) {
  const std::vector<NamedModel>& models = named_models();
  EXPECT_TRUE(std::ranges::is_sorted(models, {}, &NamedModel::name));
  for (const NamedModel& model : models) {
    EXPECT_FALSE(model.source.empty()) << model.name;
    EXPECT_GT(model.config.softmax_scale, 0.0);
    EXPECT_EQ(find_named_model(model.name), &model);
  }
  EXPECT_EQ(find_named_model("DeepSeek-V3"), find_named_model("deepseek-v3"));
  EXPECT_EQ(find_named_model("deepseek"), nullptr);
}

TEST(LoadModel, TellsNamesFromPaths) {
  EXPECT_EQ(load_model("kimi-k2")->num_heads, 64);
  EXPECT_EQ(load_model("nosuch").error().code, ErrorCode::kUnknownName);
  EXPECT_NE(load_model("nosuch").error().message.find("deepseek-v3"), std::string::npos);
  EXPECT_EQ(load_model("no/such").error().code, ErrorCode::kNotReadable);
  EXPECT_EQ(load_model("nosuch.json").error().code, ErrorCode::kNotReadable);
}

}  // namespace
}  // namespace mla
