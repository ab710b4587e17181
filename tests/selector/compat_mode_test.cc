// Compat mode where the case file is silent: upstream's registry messages, no model, variants, and
// that what vLLM does not know has no effect.
#include <gtest/gtest.h>

#include "requests.h"

namespace mla {
namespace {

Json vllm(Json request) {
  request["compat"] = "vllm";
  return request;
}

TEST(Compat, WithoutAModelItIsTorchsDefault) {
  const Json answer = ask(vllm({{"platform", "cuda"}, {"capability", {9, 0}}}));
  EXPECT_EQ(answer["error"]["message"],
            "No valid MLA prefill backend found with "
            "MLAPrefillSelectorConfig(dtype=torch.float32, "
            "mla_dimensions=(qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0)). Reasons: "
            "{FLASH_ATTN: [dtype torch.float32 not supported, Model does not have supported MLA "
            "dimensions (got (qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0))]}.");
  EXPECT_EQ(chosen(ask(vllm({{"platform", "cuda"}}))), "FLASH_ATTN");
}

TEST(Compat, UnknownNames) {
  const auto error = [](const char* backend) {
    return ask(vllm(cuda(9, 0, {{"backend", backend}})))["error"];
  };
  EXPECT_EQ(error("NOPE")["code"], "unknown_backend");
  EXPECT_EQ(error("NOPE")["message"],
            "Unknown MLA prefill backend: 'NOPE'. Valid options are: FLASH_ATTN, FLASHINFER, "
            "TRTLLM_RAGGED, TOKENSPEED_MLA, ROCM_AITER_FA, CPU, ZEN_CPU, CUSTOM");
  EXPECT_EQ(error("CPU:avx2")["code"], "unknown_backend");
  EXPECT_EQ(error("flash_attn")["code"], "unknown_backend");
  EXPECT_EQ(error("CUSTOM")["message"],
            "MLA prefill backend CUSTOM must be registered before use. Use "
            "register_mla_prefill_backend(MLAPrefillBackendEnum.CUSTOM, "
            "'your.module.YourClass')");
}

TEST(Compat, ExplicitChoiceIsIgnoredOnCpusAndWithUnknownCapability) {
  for (const char* backend : {"NOPE", "FLASHINFER", "CPU"}) {
    const Json on_cpu = ask(vllm(cpu("ARM", {"neon"}, {{"backend", backend}})));
    EXPECT_EQ(on_cpu["selected"], "ZEN_CPU") << backend;
    EXPECT_EQ(on_cpu["explicit"], false);
    const Json unknown = ask(vllm(
        {{"platform", "rocm"}, {"capability", nullptr}, {"arch", "gfx942"}, {"backend", backend}}));
    EXPECT_EQ(unknown["selected"], "FLASH_ATTN") << backend;
    EXPECT_EQ(unknown["note"], "capability_unknown");
  }
}

TEST(Compat, WhatUpstreamDoesNotKnowHasNoEffect) {
  Json request = vllm(cuda(10, 0));
  const Json answer = ask(request);
  request["disabled"] = {"FLASH_ATTN"};
  request["fallback"] = true;
  EXPECT_EQ(ask(request), answer);
  request["backend"] = "FLASHINFER";
  request["dims"] = {64, 64, 128};
  EXPECT_EQ(ask(request)["error"]["code"], "explicit_invalid");
}

TEST(Compat, NoBackendIsRefusedForItsPlatform) {
  EXPECT_EQ(ask(vllm(cuda(9, 0, {{"backend", "ZEN_CPU"}})))["selected"], "ZEN_CPU");
  EXPECT_EQ(ask(vllm(cuda(7, 5)))["selected"], "FLASH_ATTN");
  EXPECT_EQ(ask(vllm({{"platform", "rocm"},
                      {"arch", "gfx1030"},
                      {"dims", {128, 64, 128}},
                      {"backend", "FLASHINFER"}}))["selected"],
            "FLASHINFER");
}

TEST(Compat, VariantIsTheBestThatRuns) {
  EXPECT_EQ(chosen(ask(vllm(cpu("AuthenticAMD", {"avx2", "fma"})))), "ZEN_CPU:avx2");
  // Upstream takes ZEN_CPU wherever its library is installed, also where no variant runs.
  EXPECT_EQ(chosen(ask(vllm(cpu("GenuineIntel", {"avx2", "fma"})))), "ZEN_CPU");
  const Json cpu_only = vllm(cpu("GenuineIntel", {"avx2", "fma"}, {{"unloadable", {"ZEN_CPU"}}}));
  EXPECT_EQ(chosen(ask(cpu_only)), "CPU:avx2");
  const Request request = *parse_request(vllm(cpu("GenuineIntel", {"avx2", "fma"})).dump());
  const auto zen = select(request.problem, request.platform, request.policy);
  EXPECT_EQ(selected_row(*zen, default_registry()).error().code, ErrorCode::kUnregistered);
}

TEST(Compat, LogLines) {
  const auto lines = [](const Json& json) {
    const Request request = *parse_request(json.dump());
    std::vector<std::string> texts;
    const Selection selection =
        select_uncached(request.problem, request.platform, request.policy, default_registry());
    for (const LogLine& line : selection.log) texts.push_back(line.text);
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(lines(vllm(cuda(10, 0, {{"unloadable", {"FLASH_ATTN"}}}))),
            Texts{"Using TRTLLM_RAGGED MLA prefill backend."});
  EXPECT_EQ(lines(vllm({{"platform", "cuda"}})),
            (Texts{"Device capability not available, using FlashAttention MLA prefill backend.",
                   "Using FLASH_ATTN MLA prefill backend."}));
  EXPECT_EQ(lines(vllm(cuda(9, 0, {{"dtype", "f32"}}))).size(), 1u);
}

}  // namespace
}  // namespace mla
