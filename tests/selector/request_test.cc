// The fields of a request: what counts as given, what is refused, and that the field is named.
#include <gtest/gtest.h>

#include "requests.h"

namespace mla {
namespace {

struct Bad {
  const char* field;
  const char* request;
};

class BadRequest : public testing::TestWithParam<Bad> {};

TEST_P(BadRequest, NamesTheField) {
  const Json answer = Json::parse(select_json(GetParam().request));
  ASSERT_TRUE(answer["error"].is_object()) << answer;
  EXPECT_EQ(answer["error"]["code"], "invalid_request");
  EXPECT_EQ(answer["error"]["field"], *GetParam().field ? Json(GetParam().field) : Json(nullptr));
  const std::string message = answer["error"]["message"];
  EXPECT_NE(message.find(GetParam().field), std::string::npos) << message;
  EXPECT_TRUE(answer["selected"].is_null());
  EXPECT_TRUE(answer["rejected"].empty());
  EXPECT_EQ(answer["explicit"], false);
}

constexpr Bad kBad[] = {
    {"", ""},
    {"", "{"},
    {"", "null"},
    {"", "[]"},
    {"", "3"},
    {"", "{\"dims\": [128, 64, 128]} x"},
    {"", "\"\xff\""},
    {"dims", "{}"},
    {"dims", R"({"platform": "cuda", "dims": null})"},
    {"dims", R"({"dims": [128, 64]})"},
    {"dims", R"({"dims": [128, 64, 128, 1]})"},
    {"dims", R"({"dims": "128,64,128"})"},
    {"dims", R"({"dims": [128, 64, 128.0]})"},
    {"dims", R"({"dims": [128, 64, true]})"},
    {"dims", R"({"dims": [-1, 64, 128]})"},
    {"dims", R"({"dims": [128, 64, 99999999999]})"},
    {"dtype", R"({"dims": [128, 64, 128], "dtype": "int8"})"},
    {"dtype", R"({"dims": [128, 64, 128], "dtype": 16})"},
    {"dtype", R"({"dims": [128, 64, 128], "dtype": ""})"},
    {"platform", R"({"dims": [128, 64, 128], "platform": "tpu"})"},
    {"platform", R"({"dims": [128, 64, 128], "platform": 1})"},
    {"capability", R"({"dims": [128, 64, 128], "platform": "cuda", "capability": 10})"},
    {"capability", R"({"dims": [128, 64, 128], "platform": "cuda", "capability": [10]})"},
    {"capability", R"({"dims": [128, 64, 128], "platform": "cuda", "capability": [10, -1]})"},
    {"capability", R"({"dims": [128, 64, 128], "platform": "cuda", "capability": ["10", 0]})"},
    {"capability", R"({"dims": [128, 64, 128], "capability": [10, 0]})"},
    {"arch", R"({"dims": [128, 64, 128], "platform": "rocm", "arch": 942})"},
    {"arch", R"({"dims": [128, 64, 128], "arch": "gfx942"})"},
    {"arch", R"({"dims": [128, 64, 128], "platform": "cuda", "arch": "gfx942"})"},
    {"arch", R"({"dims": [128, 64, 128], "platform": "cpu", "arch": "gfx942"})"},
    {"capability", R"({"dims": [128, 64, 128], "platform": "cpu", "capability": [10, 0]})"},
    {"cpu", R"({"dims": [128, 64, 128], "platform": "cuda", "cpu": {"isa": ["avx2"]}})"},
    {"cpu", R"({"dims": [128, 64, 128], "platform": "rocm", "cpu": {"isa": ["avx2"]}})"},
    {"cpu", R"({"dims": [128, 64, 128], "platform": "cpu", "cpu": "AMD"})"},
    {"cpu", R"({"dims": [128, 64, 128], "cpu": {"isa": []}})"},
    {"cpu.isa", R"({"dims": [128, 64, 128], "platform": "cpu", "cpu": {"isa": "avx2"}})"},
    {"cpu.isa", R"({"dims": [128, 64, 128], "platform": "cpu", "cpu": {"isa": [2]}})"},
    {"cpu.vendor", R"({"dims": [128, 64, 128], "platform": "cpu", "cpu": {"vendor": 1}})"},
    {"cpu.flags", R"({"dims": [128, 64, 128], "platform": "cpu", "cpu": {"flags": []}})"},
    {"backend", R"({"dims": [128, 64, 128], "backend": 1})"},
    {"backend", R"({"dims": [128, 64, 128], "backend": ""})"},
    {"fallback", R"({"dims": [128, 64, 128], "fallback": 1})"},
    {"compat", R"({"dims": [128, 64, 128], "compat": "sglang"})"},
    {"compat", R"({"dims": [128, 64, 128], "compat": true})"},
    {"disabled", R"({"dims": [128, 64, 128], "disabled": "CPU"})"},
    {"disabled", R"({"dims": [128, 64, 128], "disabled": [1]})"},
    {"unloadable", R"({"dims": [128, 64, 128], "unloadable": {}})"},
    {"not_installed", R"({"dims": [128, 64, 128], "not_installed": [null]})"},
    {"num_heads", R"({"dims": [128, 64, 128], "num_heads": 0})"},
    {"kv_lora_rank", R"({"dims": [128, 64, 128], "kv_lora_rank": "512"})"},
    {"dimms", R"({"dimms": [128, 64, 128]})"},
    {"model", R"({"model": 3})"},
    {"model", R"({"model": "no-such-model"})"},
    {"model", R"({"model": {"model_type": "llama"}})"},
    {"model.v_head_dim",
     R"({"model": {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}})"},
    // A broken model is an error also where dims would do.
    {"model", R"({"model": {}, "dims": [128, 64, 128]})"},
};

INSTANTIATE_TEST_SUITE_P(All, BadRequest, testing::ValuesIn(kBad),
                         [](const testing::TestParamInfo<Bad>& info) {
                           std::string name = std::to_string(info.index) + "_";
                           for (const char* c = info.param.field; *c != 0; ++c) {
                             name += *c == '.' ? '_' : *c;
                           }
                           return name;
                         });

TEST(Request, AnswerHasEveryFieldOfTheSpecification) {
  const Json answer = ask(cuda(9, 0));
  for (const char* field :
       {"selected", "variant", "explicit", "fallback", "note", "rejected", "error"}) {
    EXPECT_TRUE(answer.contains(field)) << field;
  }
  EXPECT_EQ(answer.size(), 7u);
  EXPECT_EQ(select_json(cuda(9, 0).dump()).find('\n'), std::string::npos);
}

TEST(Request, NullCountsAsAbsent) {
  Json request = cuda(10, 0);
  const Json answer = ask(request);
  for (const char* field : {"arch", "cpu", "dtype", "model", "num_heads", "kv_lora_rank", "backend",
                            "fallback", "compat", "disabled", "unloadable", "not_installed"}) {
    request[field] = nullptr;
  }
  EXPECT_EQ(ask(request), answer);
}

TEST(Request, DtypeAliases) {
  for (const char* alias : {"bf16", "bfloat16", "torch.bfloat16", "f16", "half", "fp16", "float16",
                            "torch.half", "torch.float16"}) {
    EXPECT_EQ(chosen(ask(cuda(9, 0, {{"dtype", alias}}))), "FLASH_ATTN") << alias;
  }
  for (const char* alias : {"f32", "fp32", "float32", "torch.float32", "float8_e4m3"}) {
    EXPECT_EQ(reasons(ask(cuda(9, 0, {{"dtype", alias}})), "FLASH_ATTN"),
              std::vector<std::string>{"dtype_unsupported"})
        << alias;
  }
}

TEST(Request, DtypeIsBfloat16UnlessGiven) {
  EXPECT_EQ(parse_request(R"({"dims": [128, 64, 128]})")->problem.dtype, DType::kBFloat16);
}

Json model(const char* dtype) {
  return {{"qk_nope_head_dim", 192}, {"qk_rope_head_dim", 64},    {"v_head_dim", 256},
          {"kv_lora_rank", 512},     {"num_attention_heads", 20}, {"dtype", dtype}};
}

TEST(Request, ModelGivesTheProblemAndFieldsOverrideIt) {
  Json request = {{"platform", "cuda"}, {"capability", {10, 0}}, {"model", model("float16")}};
  Result<Request> read = parse_request(request.dump());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->problem, (Problem{DType::kFloat16, {192, 64, 256}, 20, 512}));
  EXPECT_EQ(chosen(ask(request)), "TRTLLM_RAGGED");
  request["dims"] = {128, 64, 128};
  request["dtype"] = "bf16";
  request["num_heads"] = 7;
  request["kv_lora_rank"] = 256;
  read = parse_request(request.dump());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->problem, (Problem{DType::kBFloat16, {128, 64, 128}, 7, 256}));
  EXPECT_EQ(chosen(ask(request)), "FLASH_ATTN");
}

TEST(Request, ModelByName) {
  EXPECT_EQ(parse_request(R"({"model": "deepseek-v3"})")->problem,
            find_named_model("deepseek-v3")->config.problem());
}

TEST(Request, WithoutAPlatformMeansThisMachine) {
  EXPECT_EQ(parse_request(R"({"dims": [128, 64, 128]})")->platform, this_platform());
  EXPECT_EQ(parse_request(R"({"dims": [128, 64, 128], "platform": null})")->platform,
            this_platform());
  EXPECT_EQ(parse_request(R"({"dims": [128, 64, 128], "platform": "cpu"})")->platform,
            this_cpu_platform());
}

TEST(Request, CpuDescriptionsAreTidied) {
  const Platform platform =
      parse_request(cpu("X", {"FMA", "avx2", "fma", "asimd"}).dump())->platform;
  EXPECT_EQ(platform.cpu.isa, (IsaSet{"avx2", "fma", "neon"}));
  EXPECT_TRUE(platform.simulated);
  const Json request = {{"platform", "cpu"},
                        {"dims", {128, 64, 128}},
                        {"cpu", {{"vendor", "AuthenticAMD"}, {"family", 25}, {"model", 17}}}};
  EXPECT_EQ(parse_request(request.dump())->platform.cpu, (Cpu{"AuthenticAMD", 25, 17, {}}));
}

TEST(Request, RocmCapabilityFollowsFromTheArchitectureWhenAbsent) {
  const auto capability = [](const char* arch) {
    const Json request = {{"platform", "rocm"}, {"arch", arch}, {"dims", {128, 64, 128}}};
    return parse_request(request.dump())->platform.capability;
  };
  EXPECT_EQ(capability("gfx942"), (Capability{9, 4}));
  EXPECT_EQ(capability("gfx90a"), (Capability{9, 0}));
  EXPECT_EQ(capability("gfx1201"), (Capability{12, 0}));
  EXPECT_EQ(capability("gfx950:sramecc+:xnack-"), (Capability{9, 5}));
  EXPECT_EQ(capability("gfx"), std::nullopt);
  EXPECT_EQ(capability("mi300x"), std::nullopt);
  const Json unknown = {
      {"platform", "rocm"}, {"arch", "gfx942"}, {"capability", nullptr}, {"dims", {128, 64, 128}}};
  EXPECT_EQ(parse_request(unknown.dump())->platform.capability, std::nullopt);
}

}  // namespace
}  // namespace mla
