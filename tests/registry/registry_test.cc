// The registry: names, adding, overriding, and what the selector makes of it.
#include "mla/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mla/selector.h"
#include "registry/rows.h"

namespace mla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Selection choose(const Registry& registry, std::string backend = "",
                 Compat compat = Compat::kNone) {
  Policy policy;
  policy.backend = std::move(backend);
  policy.compat = compat;
  return select_uncached({DType::kBFloat16, {128, 64, 128}, {}, {}}, any_cpu(), policy, registry);
}

TEST(BuiltIn, NamesInUpstreamsOrder) {
  EXPECT_THAT(make_builtin_registry()->names(),
              ElementsAre("FLASH_ATTN", "FLASHINFER", "TRTLLM_RAGGED", "TOKENSPEED_MLA",
                          "ROCM_AITER_FA", "CPU", "ZEN_CPU", "CUSTOM"));
}

TEST(BuiltIn, VariantsBestFirst) {
  std::vector<std::string> names;
  const auto found = make_builtin_registry()->find("CPU");
  for (const Row& row : *found) names.push_back(row.full_name());
  EXPECT_THAT(names, ElementsAre("CPU:amx", "CPU:avx512_bf16", "CPU:avx512", "CPU:avx2", "CPU:neon",
                                 "CPU:portable"));
}

TEST(BuiltIn, EveryRowIsDescribedAndChecksWhatItRunsOn) {
  for (const Row& row : builtin_rows()) {
    EXPECT_FALSE(row.description.empty()) << row.full_name();
    EXPECT_FALSE(row.needs.devices.empty()) << row.full_name();
    EXPECT_FALSE(row.needs.dtypes.empty()) << row.full_name();
    EXPECT_TRUE(std::ranges::is_sorted(row.needs.isa)) << row.full_name();
    // A row without something that runs it says so on a real machine.
    EXPECT_EQ(row.implementation == nullptr, static_cast<bool>(row.probe_library));
    if (row.probe_library) {
      EXPECT_FALSE(row.probe_library().empty());
    }
  }
}

TEST(Find, ByNameAndVariantWithCase) {
  const auto registry = make_builtin_registry();
  EXPECT_EQ(registry->find("CPU:avx2")->size(), 1u);
  EXPECT_EQ(registry->find("FLASH_ATTN")->front().full_name(), "FLASH_ATTN");
  for (const char* name : {"", "cpu", "CPU:", "CPU:sse", "CPU:AVX2", "FLASH_ATTN:", "NOPE:avx2"}) {
    const auto found = registry->find(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kUnknownName) << name;
    EXPECT_THAT(found.error().message, HasSubstr("valid names"));
  }
  EXPECT_EQ(registry->find("CUSTOM").error().code, ErrorCode::kUnregistered);
}

TEST(Add, NewNamesAndFurtherVariants) {
  Registry registry;
  EXPECT_TRUE(registry.add(cpu_row("MINE", "fast")).ok());
  EXPECT_TRUE(registry.add(cpu_row("MINE", "slow")).ok());
  EXPECT_TRUE(registry.add(cpu_row("_other2")).ok());
  EXPECT_THAT(registry.names(), ElementsAre("CUSTOM", "MINE", "_other2"));
  EXPECT_EQ(registry.find("MINE")->size(), 2u);
  EXPECT_EQ(choose(registry, "MINE").full_name(), "MINE:fast");
  EXPECT_EQ(choose(registry, "MINE:slow").full_name(), "MINE:slow");
  // The automatic order has the built-in names only.
  EXPECT_EQ(choose(registry).error->code, ErrorCode::kNoneValid);
}

TEST(Add, TakenNamesSayHowToOverride) {
  const auto registry = make_builtin_registry();
  ASSERT_TRUE(registry->add(cpu_row("MINE")).ok());
  for (const Row& taken : {cpu_row("FLASH_ATTN"), cpu_row("CPU", "mine"), cpu_row("MINE")}) {
    const Status status = registry->add(taken);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kAlreadyRegistered);
    EXPECT_THAT(status.error().message, HasSubstr("override_backend(\"" + taken.backend));
  }
}

TEST(Add, NamesAreIdentifiers) {
  Registry registry;
  for (const char* name : {"", "1X", "A-B", "A B", "A:B", "a.b", "\xc3\xa4"}) {
    const Status status = registry.add(cpu_row(name));
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidName) << name;
  }
  EXPECT_EQ(registry.add(cpu_row("A", "b c")).error().code, ErrorCode::kInvalidName);
  EXPECT_THAT(registry.names(), ElementsAre("CUSTOM"));
}

TEST(Custom, MustBeRegisteredBeforeUse) {
  const auto registry = make_builtin_registry();
  EXPECT_EQ(choose(*registry, "CUSTOM").error->code, ErrorCode::kUnknownBackend);
  ASSERT_TRUE(registry->add(cpu_row("CUSTOM")).ok());
  EXPECT_EQ(choose(*registry, "CUSTOM").backend, "CUSTOM");
  EXPECT_EQ(registry->names().size(), 8u);
  EXPECT_FALSE(registry->add(cpu_row("CUSTOM")).ok());
}

TEST(Override, ReplacesAllRowsUntilCleared) {
  const auto registry = make_builtin_registry();
  EXPECT_FALSE(*registry->is_overridden("CPU"));
  ASSERT_TRUE(registry->override_backend("CPU", cpu_row("ignored", "mine")).ok());
  EXPECT_TRUE(*registry->is_overridden("CPU"));
  EXPECT_EQ(registry->find("CPU")->size(), 1u);
  EXPECT_EQ(choose(*registry).full_name(), "CPU:mine");
  EXPECT_EQ(choose(*registry, "CPU:portable").error->code, ErrorCode::kUnknownBackend);
  ASSERT_TRUE(registry->override_backend("CPU", cpu_row("CPU")).ok());
  EXPECT_EQ(choose(*registry).full_name(), "CPU");
  ASSERT_TRUE(registry->clear_override("CPU").ok());
  EXPECT_FALSE(*registry->is_overridden("CPU"));
  EXPECT_EQ(choose(*registry).full_name(), "CPU:portable");
  EXPECT_EQ(registry->names().size(), 8u);
}

TEST(Override, OfCustomRegistersIt) {
  const auto registry = make_builtin_registry();
  ASSERT_TRUE(registry->override_backend("CUSTOM", cpu_row("CUSTOM")).ok());
  EXPECT_EQ(choose(*registry, "CUSTOM").backend, "CUSTOM");
  ASSERT_TRUE(registry->clear_override("CUSTOM").ok());
  EXPECT_EQ(registry->find("CUSTOM").error().code, ErrorCode::kUnregistered);
}

TEST(Override, UnknownNames) {
  const auto registry = make_builtin_registry();
  for (const char* name : {"NOPE", "cpu", "CPU:avx2"}) {
    EXPECT_EQ(registry->override_backend(name, cpu_row("X")).error().code, ErrorCode::kUnknownName);
    EXPECT_EQ(registry->clear_override(name).error().code, ErrorCode::kUnknownName);
    EXPECT_EQ(registry->is_overridden(name).error().code, ErrorCode::kUnknownName);
  }
}

TEST(Generation, ChangesWithEveryChangeAndIsOneOfAKind) {
  const auto registry = make_builtin_registry();
  std::vector<std::uint64_t> seen = {registry->generation(), Registry().generation()};
  const auto changed = [&] {
    const std::uint64_t now = registry->generation();
    const bool is_new = std::ranges::find(seen, now) == seen.end();
    seen.push_back(now);
    return is_new;
  };
  EXPECT_FALSE(changed());
  EXPECT_TRUE(registry->clear_override("CPU").ok());
  EXPECT_FALSE(changed());
  EXPECT_TRUE(registry->add(cpu_row("MINE")).ok());
  EXPECT_TRUE(changed());
  EXPECT_TRUE(registry->override_backend("MINE", cpu_row("MINE")).ok());
  EXPECT_TRUE(changed());
  EXPECT_TRUE(registry->clear_override("MINE").ok());
  EXPECT_TRUE(changed());
  EXPECT_FALSE(registry->add(cpu_row("MINE")).ok());
  EXPECT_FALSE(changed());
}

TEST(Cache, EveryPartOfTheKeyIsAKey) {
  const auto registry = make_builtin_registry();
  const Problem problem{DType::kBFloat16, {128, 64, 128}, {}, {}};
  const auto first = select(problem, any_cpu(), {}, *registry);
  EXPECT_EQ(select(problem, any_cpu(), {}, *registry), first);  // the same object
  EXPECT_NE(select({DType::kFloat16, {128, 64, 128}, {}, {}}, any_cpu(), {}, *registry), first);
  EXPECT_NE(select({DType::kBFloat16, {128, 64, 128}, 4, {}}, any_cpu(), {}, *registry), first);
  Platform other = any_cpu();
  other.cpu.isa = {"neon"};
  EXPECT_EQ(select(problem, other, {}, *registry)->full_name(), "CPU:neon");
  other.cpu.isa = {"fma"};
  EXPECT_EQ(select(problem, other, {}, *registry)->full_name(), "CPU:portable");
  Policy policy;
  policy.disabled = {"CPU"};
  EXPECT_FALSE(select(problem, any_cpu(), policy, *registry)->ok());
  policy.disabled = {"ZEN_CPU"};
  EXPECT_TRUE(select(problem, any_cpu(), policy, *registry)->ok());
  ASSERT_TRUE(registry->override_backend("CPU", cpu_row("CPU", "mine")).ok());
  EXPECT_EQ(select(problem, any_cpu(), {}, *registry)->full_name(), "CPU:mine");
  ASSERT_TRUE(registry->clear_override("CPU").ok());
  EXPECT_EQ(*select(problem, any_cpu(), {}, *registry), *first);
}

TEST(Cache, AnotherRegistryIsAnotherKey) {
  const Problem problem{DType::kBFloat16, {128, 64, 128}, {}, {}};
  for (int i = 0; i < 50; ++i) {
    // A new registry is likely to lie where the last one lay.
    Registry registry;
    Row cpu = cpu_row("CPU", "v" + std::to_string(i));
    ASSERT_TRUE(registry.add(cpu).ok());
    EXPECT_EQ(select(problem, any_cpu(), {}, registry)->variant, cpu.variant);
  }
}

TEST(Cache, ForgetsWithoutForgettingWhatIsRight) {
  for (int heads = 1; heads < 6000; ++heads) {
    const Problem problem{DType::kBFloat16, {128, 64, 128}, heads, {}};
    ASSERT_TRUE(select(problem, any_cpu())->ok());
  }
}

TEST(Probe, CountsOnlyOnRealMachines) {
  Registry registry;
  Row broken = cpu_row("MINE");
  broken.probe_library = [] { return std::string("libmine.so: no such file"); };
  ASSERT_TRUE(registry.add(broken).ok());
  EXPECT_TRUE(choose(registry, "MINE").ok());
  Policy policy;
  policy.backend = "MINE";
  const Selection selection =
      select_uncached({DType::kBFloat16, {128, 64, 128}, {}, {}}, Platform{}, policy, registry);
  ASSERT_EQ(selection.rejected.size(), 1u);
  EXPECT_EQ(selection.rejected[0].reasons[0].code, ReasonCode::kNotLoadable);
  EXPECT_EQ(selection.rejected[0].reasons[0].text,
            "library not loadable: libmine.so: no such file");
}

TEST(SelectedRow, IsTheRowThatWasChosen) {
  const auto registry = make_builtin_registry();
  Selection selection = choose(*registry);
  EXPECT_EQ(selected_row(selection, *registry)->full_name(), "CPU:portable");
  ASSERT_TRUE(registry->override_backend("CPU", cpu_row("CPU")).ok());
  EXPECT_EQ(selected_row(selection, *registry).error().code, ErrorCode::kUnregistered);
  selection = choose(*registry, "NOPE");
  EXPECT_EQ(selected_row(selection, *registry).error().code, ErrorCode::kUnknownBackend);
}

TEST(CompatMode, SeesAddedAndOverriddenRows) {
  const auto registry = make_builtin_registry();
  ASSERT_TRUE(registry->add(cpu_row("MINE")).ok());
  Policy policy;
  policy.backend = "MINE";
  policy.compat = Compat::kVllm;
  Platform cuda;
  cuda.kind = DeviceKind::kCuda;
  cuda.capability = Capability{9, 0};
  const Problem problem{DType::kBFloat16, {1, 2, 3}, {}, {}};
  EXPECT_EQ(select_uncached(problem, cuda, policy, *registry).backend, "MINE");
  policy.backend = "NOPE";
  EXPECT_THAT(select_uncached(problem, cuda, policy, *registry).error->message,
              HasSubstr("CUSTOM, MINE"));
}

}  // namespace
}  // namespace mla
