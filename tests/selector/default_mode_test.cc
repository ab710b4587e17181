// Default mode: each reason alone, the rules the case file does not reach, the texts, the log.
#include <gtest/gtest.h>

#include "requests.h"
#include "selector/priority.h"

namespace mla {
namespace {

using Codes = std::vector<std::string>;

TEST(Reasons, TextsOfDefaultMode) {
  const Json request = cuda(9, 0,
                            {{"backend", "TOKENSPEED_MLA"},
                             {"dtype", "float32"},
                             {"dims", {64, 64, 128}},
                             {"disabled", {"TOKENSPEED_MLA"}},
                             {"unloadable", {"TOKENSPEED_MLA"}},
                             {"not_installed", {"TOKENSPEED_MLA"}}});
  const Json answer = ask(request);
  EXPECT_EQ(reasons(answer, "TOKENSPEED_MLA"),
            (Codes{"disabled", "not_loadable", "capability_unsupported", "dtype_unsupported",
                   "dependency_missing", "dimensions_unsupported"}));
  const auto text = [&](const char* code) { return text_of(answer, "TOKENSPEED_MLA", code); };
  EXPECT_EQ(text("disabled"), "disabled by the user");
  EXPECT_TRUE(text("not_loadable").starts_with("library not loadable: "));
  EXPECT_EQ(text("capability_unsupported"), "compute capability 9.0 not supported");
  EXPECT_EQ(text("dtype_unsupported"), "dtype float32 not supported");
  EXPECT_EQ(text("dependency_missing"),
            "tokenspeed_mla package is not installed. Install it with: `uv pip install "
            "tokenspeed-mla`");
  EXPECT_EQ(text("dimensions_unsupported"),
            "Model does not have supported MLA dimensions (got (qk_nope_head_dim=64, "
            "qk_rope_head_dim=64, v_head_dim=128); supported: (qk_nope_head_dim=128, "
            "qk_rope_head_dim=64, v_head_dim=128))");
  // The message of the error has every reason.
  for (const Json& reason : answer["rejected"][0]["reasons"]) {
    EXPECT_NE(answer["error"]["message"].get<std::string>().find(reason["text"]),
              std::string::npos);
  }
}

TEST(Reasons, ForeignPlatformHasNoNoise) {
  const Json answer = ask(cpu("X", {}, {{"backend", "FLASHINFER"}}));
  EXPECT_EQ(reasons(answer, "FLASHINFER"), Codes{"platform_unsupported"});
  EXPECT_EQ(text_of(answer, "FLASHINFER", "platform_unsupported"), "platform cpu not supported");
  EXPECT_EQ(reasons(ask(cuda(9, 0, {{"backend", "CPU:amx"}})), "CPU:amx"),
            Codes{"platform_unsupported"});
}

TEST(Reasons, ArchitectureIsNamed) {
  const Json answer = ask({{"platform", "rocm"}, {"arch", "gfx90a"}, {"dims", {128, 64, 128}}});
  EXPECT_EQ(chosen(answer), "FLASH_ATTN");
  EXPECT_EQ(text_of(answer, "ROCM_AITER_FA", "capability_unsupported"),
            "architecture gfx90a not supported");
}

TEST(Reasons, KnownArchitectureIsEnoughOnRocm) {
  const Json answer = ask({{"platform", "rocm"},
                           {"arch", "gfx942:sramecc+:xnack-"},
                           {"capability", nullptr},
                           {"dims", {128, 64, 128}}});
  EXPECT_EQ(chosen(answer), "ROCM_AITER_FA");
  EXPECT_TRUE(answer["note"].is_null());
  const Json no_arch =
      ask({{"platform", "rocm"}, {"capability", {9, 4}}, {"dims", {128, 64, 128}}});
  EXPECT_EQ(chosen(no_arch), "FLASH_ATTN");
  EXPECT_EQ(reasons(no_arch, "ROCM_AITER_FA"), Codes{"capability_unknown"});
}

TEST(Reasons, EveryMissingInstructionSetIsNamed) {
  const Json answer = ask(cpu("GenuineIntel", {"avx2"}));
  EXPECT_EQ(chosen(answer), "CPU:portable");
  EXPECT_EQ(text_of(answer, "CPU:avx2", "isa_missing"), "CPU lacks fma");
  EXPECT_EQ(text_of(ask(cpu("GenuineIntel", {"avx2", "avx512", "fma"})), "CPU:amx", "isa_missing"),
            "CPU lacks amx_bf16, amx_tile, avx512_bf16");
}

TEST(Cpus, DescriptionsMayBeShort) {
  EXPECT_EQ(chosen(ask(cpu("AuthenticAMD", {"avx2", "fma"}))), "ZEN_CPU:avx2");
  EXPECT_EQ(chosen(ask(cpu("GenuineIntel", {"avx2", "fma"}))), "CPU:avx2");
  EXPECT_EQ(chosen(ask(cpu("GenuineIntel", {"avx512"}))), "CPU:avx512");
  EXPECT_EQ(chosen(ask(cpu("AuthenticAMD", {"avx512", "avx512_bf16"}))), "ZEN_CPU:avx512_bf16");
  EXPECT_EQ(chosen(ask(cpu("ARM", {"asimd"}))), "CPU:neon");
  EXPECT_EQ(chosen(ask({{"platform", "cpu"}, {"cpu", Json::object()}, {"dims", {128, 64, 128}}})),
            "CPU:portable");
}

// What a detected CPU does not say it does not have: a hypervisor may hide a feature.
TEST(Cpus, DetectedOnesMeanWhatTheySay) {
  Platform platform;
  platform.cpu = {"GenuineIntel", 6, 85, {"avx2", "fma"}};
  Policy policy;
  policy.backend = "CPU:avx2";
  const Problem problem{DType::kBFloat16, {128, 64, 128}, {}, {}};
  const Selection refused = select_uncached(problem, platform, policy, default_registry());
  ASSERT_EQ(refused.rejected.size(), 1u);
  EXPECT_EQ(refused.rejected[0].reasons.back().text, "CPU lacks f16c");
}

TEST(Cpus, ZenNeedsAmdFromZen2On) {
  const auto asked = [](int family, int model) {
    return ask({{"platform", "cpu"},
                {"dims", {128, 64, 128}},
                {"cpu",
                 {{"vendor", "AuthenticAMD"},
                  {"family", family},
                  {"model", model},
                  {"isa", {"avx2", "fma", "f16c"}}}}});
  };
  EXPECT_EQ(chosen(asked(0x17, 0x31)), "ZEN_CPU:avx2");  // Rome, Zen 2
  EXPECT_EQ(chosen(asked(0x19, 0x01)), "ZEN_CPU:avx2");  // Milan, Zen 3
  EXPECT_EQ(chosen(asked(0x17, 0x01)), "CPU:avx2");      // Naples, Zen
  EXPECT_EQ(chosen(asked(0x15, 0x60)), "CPU:avx2");      // Carrizo, before Zen
  EXPECT_EQ(reasons(asked(0x15, 0x60), "ZEN_CPU:avx2"), Codes{"platform_unsupported"});
  EXPECT_EQ(chosen(ask(cpu("", {"avx2", "fma"}))), "CPU:avx2");
}

TEST(Dims, CpuTakesWhatItsKernelsTake) {
  const auto answer = [](Json dims) { return ask(cpu("X", {}, {{"dims", std::move(dims)}})); };
  for (const Json& good :
       {Json{1, 0, 1}, Json{0, 1, 1}, Json{1024, 1024, 1024}, Json{256, 0, 256}, Json{3, 5, 7}}) {
    EXPECT_EQ(chosen(answer(good)), "CPU:portable") << good;
  }
  for (const Json& bad : {Json{0, 0, 128}, Json{128, 64, 0}, Json{1025, 64, 128},
                          Json{128, 1025, 128}, Json{128, 64, 1025}, Json{0, 0, 0}}) {
    EXPECT_EQ(answer(bad)["error"]["code"], "none_valid") << bad;
    EXPECT_EQ(reasons(answer(bad), "CPU:portable"), Codes{"dimensions_unsupported"}) << bad;
    EXPECT_EQ(reasons(answer(bad), "ZEN_CPU:avx2"), (Codes{"platform_unsupported", "isa_missing"}));
  }
  const Selection negative =
      select_uncached({DType::kFloat32, {-1, 64, 128}, {}, {}}, known_platforms({}).back().platform,
                      {}, default_registry());
  EXPECT_EQ(negative.rejected.back().reasons.back().code, ReasonCode::kDimensionsUnsupported);
}

TEST(Dims, AiterTakesAny) {
  EXPECT_EQ(chosen(ask({{"platform", "rocm"}, {"arch", "gfx950"}, {"dims", {2000, 3, 5}}})),
            "ROCM_AITER_FA");
}

TEST(Names, UnknownOnesListTheValidOnes) {
  const auto message = [](const char* backend) {
    const Json answer = ask(cuda(9, 0, {{"backend", backend}, {"fallback", true}}));
    EXPECT_EQ(answer["error"]["code"], "unknown_backend") << backend;
    EXPECT_TRUE(answer["rejected"].empty());
    return answer["error"]["message"].get<std::string>();
  };
  for (const std::string& name : default_registry().names()) {
    EXPECT_NE(message("NOPE").find(name), std::string::npos) << name;
  }
  EXPECT_NE(message("flash_attn").find("FLASH_ATTN was meant"), std::string::npos);
  EXPECT_NE(message("CPU:sse").find("CPU:avx2"), std::string::npos);
  EXPECT_NE(message("CUSTOM").find("registered before use"), std::string::npos);
  EXPECT_NE(message("CUSTOM").find("FLASH_ATTN"), std::string::npos);
  for (const char* name : {"CPU:", ":avx2", "CPU:avx2:x", "FLASH_ATTN:", "FLASH_ATTN:x", " CPU",
                           "CPU ", "CPU:AVX2", "\xff"}) {
    const Json answer = Json::parse(to_json(select_uncached(
        {}, known_platforms({}).back().platform,
        Policy{.backend = name, .disabled = {}, .unloadable = {}, .not_installed = {}},
        default_registry())));
    EXPECT_EQ(answer["error"]["code"], "unknown_backend") << name;
  }
}

TEST(Names, SingleRowsCanBeDisabled) {
  const Json answer =
      ask(cpu("X", {"avx512"}, {{"disabled", {"CPU:avx512", "CPU:avx", "NOPE", "CPU:avx512"}}}));
  EXPECT_EQ(chosen(answer), "CPU:avx2");
  EXPECT_EQ(reasons(answer, "CPU:avx512"), Codes{"disabled"});
}

TEST(Fallback, GoesOnWithTheAutomaticOrderAndSaysSo) {
  Json request = cuda(10, 0, {{"backend", "ROCM_AITER_FA"}});
  Json answer = ask(request);
  EXPECT_EQ(answer["error"]["code"], "explicit_invalid");
  EXPECT_EQ(answer["explicit"], true);
  EXPECT_EQ(answer["fallback"], false);
  request["fallback"] = true;
  answer = ask(request);
  EXPECT_EQ(chosen(answer), "FLASH_ATTN");
  EXPECT_EQ(answer["explicit"], false);
  EXPECT_EQ(answer["fallback"], true);
}

TEST(Fallback, ConsidersNoRowTwice) {
  const Json answer =
      ask(cpu("X", {"avx2", "fma"},
              {{"backend", "CPU:avx2"}, {"fallback", true}, {"dtype", "float8_e4m3"}}));
  EXPECT_EQ(answer["rejected"].size(),
            default_registry().find("CPU")->size() + default_registry().find("ZEN_CPU")->size());
}

TEST(CapabilityUnknown, ExplicitChoiceStillCounts) {
  const Json request = {{"platform", "cuda"}, {"dims", {128, 64, 128}}, {"backend", "FLASH_ATTN"}};
  const Json answer = ask(request);
  EXPECT_EQ(chosen(answer), "FLASH_ATTN");
  EXPECT_EQ(answer["explicit"], true);
  EXPECT_EQ(answer["note"], "capability_unknown");
  Json other = request;
  other["backend"] = "TRTLLM_RAGGED";
  EXPECT_EQ(reasons(ask(other), "TRTLLM_RAGGED"), Codes{"capability_unknown"});
}

TEST(Priority, OnlyMajorTenIsBlackwell) {
  for (int major : {7, 8, 9, 11, 12}) {
    const Json answer = ask(cuda(major, 0, {{"dtype", "float32"}}));
    EXPECT_EQ(answer["rejected"].size(), 1u) << major;
  }
  EXPECT_EQ(ask(cuda(10, 3, {{"dtype", "float32"}}))["rejected"].size(), 4u);
}

TEST(Priority, EveryNameIsABuiltInOne) {
  for (const NamedPlatform& named : known_platforms({})) {
    for (const MlaDims& dims : {MlaDims{128, 64, 128}, MlaDims{192, 64, 256}}) {
      for (std::string_view backend : priority(named.platform, dims)) {
        EXPECT_TRUE(default_registry().find(backend).ok()) << backend;
      }
    }
  }
}

TEST(Log, SaysTheChoiceAndTheRefusalsOnce) {
  const Problem problem{DType::kBFloat16, {128, 64, 128}, {}, {}};
  Platform platform;
  platform.kind = DeviceKind::kRocm;
  platform.simulated = true;
  const Selection selection = select_uncached(problem, platform, {}, default_registry());
  const std::vector<LogLine> expected = {
      {LogLevel::kDebug,
       "Some MLA prefill backends are not valid with "
       "MLAPrefillSelectorConfig(dtype=torch.bfloat16, mla_dimensions=(qk_nope_head_dim=128, "
       "qk_rope_head_dim=64, v_head_dim=128)). Reasons: {ROCM_AITER_FA: [device capability not "
       "available]}."},
      {LogLevel::kInfo,
       "Device capability not available, using FlashAttention MLA prefill backend."},
      {LogLevel::kInfo, "Using FLASH_ATTN MLA prefill backend."}};
  EXPECT_EQ(selection.log, expected);
  std::vector<LogLine> said;
  set_log_sink([&](LogLevel level, std::string_view text) {
    said.push_back({level, std::string(text)});
  });
  report(selection);
  report(selection);
  set_log_sink({});
  EXPECT_EQ(said, expected);
}

TEST(Explain, ShowsEveryRowWithEveryReason) {
  Request request =
      *parse_request(cuda(10, 0, {{"dims", {192, 64, 128}}, {"dtype", "float32"}}).dump());
  const Selection selection =
      select_uncached(request.problem, request.platform, request.policy, default_registry());
  const std::string page = explain(request.problem, request.platform, request.policy, selection);
  for (const Rejected& rejected : selection.rejected) {
    EXPECT_NE(page.find(rejected.backend), std::string::npos);
    for (const Reason& reason : rejected.reasons) {
      EXPECT_NE(page.find(reason.text), std::string::npos);
    }
  }
  EXPECT_NE(page.find("none_valid"), std::string::npos);
}

TEST(Matrix, HoldsTheSelectionOfEveryPair) {
  const std::vector<NamedPlatform> platforms = known_platforms(this_cpu_platform());
  const Matrix table = matrix(named_models(), platforms);
  ASSERT_EQ(table.cells.size(), table.models.size() * table.platforms.size());
  EXPECT_EQ(platforms[0].name, "this machine");
  for (std::size_t i = 0; i < table.models.size(); ++i) {
    for (std::size_t j = 0; j < platforms.size(); ++j) {
      EXPECT_EQ(table.at(i, j), select_uncached(named_models()[i].config.problem(),
                                                platforms[j].platform, {}, default_registry()));
    }
  }
  const Json json = Json::parse(to_json(table));
  EXPECT_EQ(json["models"].size(), table.models.size());
  EXPECT_EQ(json["models"][0]["cells"].size(), table.platforms.size());
}

}  // namespace
}  // namespace mla
