// Plug-in libraries: the example agrees with the reference, and whatever is wrong with a library is
// an error that says so.
#include "mla/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "conformance/conformance.h"
#include "mla/attention.h"
#include "mla/registry.h"
#include "mla/selector.h"

namespace mla {
namespace {

using testing::HasSubstr;

std::string example() { return MLA_PLUGIN_DIR "/libexample_plugin.so"; }
std::string faulty(const std::string& fault) {
  return MLA_PLUGIN_DIR "/libfaulty_" + fault + ".so";
}

// Two requests, the second with more keys than queries, and one without keys.
struct Batch {
  static constexpr std::int64_t kHeads = 3, kQk = 24, kV = 16;
  std::vector<std::int32_t> cu_q = {0, 5, 9, 11};
  std::vector<std::int32_t> cu_k = {0, 5, 20, 20};
  std::vector<float> q, k, v, out, lse;
  attention::Args args;

  Batch() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& data, std::int64_t size) {
      data.resize(static_cast<std::size_t>(size));
      for (float& x : data) x = normal(random);
    };
    fill(q, 11 * kHeads * kQk);
    fill(k, 20 * kHeads * kQk);
    fill(v, 20 * kHeads * kV);
    out.assign(11 * kHeads * kV, NAN);
    lse.assign(11 * kHeads, NAN);
    args.num_requests = 3;
    args.num_heads = kHeads;
    args.total_q = 11;
    args.total_k = 20;
    args.qk_head_dim = kQk;
    args.v_head_dim = kV;
    args.dtype = args.out_dtype = DType::kFloat32;
    args.q = {q.data(), kHeads * kQk, kQk, nullptr};
    args.k = {k.data(), kHeads * kQk, kQk, nullptr};
    args.v = {v.data(), kHeads * kV, kV, nullptr};
    args.out = {out.data(), kHeads * kV, kV, nullptr};
    args.lse = lse.data();
    args.cu_seqlens_q = cu_q.data();
    args.cu_seqlens_k = cu_k.data();
    args.scale = 0.2f;
  }
};

Problem float32() { return {DType::kFloat32, {16, 8, 16}, {}, {}}; }

TEST(Plugin, ExampleIsChosenByNameAndAgreesWithTheReference) {
  const auto registry = make_builtin_registry();
  const Result<std::string> name = load_plugin(example(), *registry);
  ASSERT_TRUE(name.ok()) << name.error().message;
  EXPECT_EQ(*name, "EXAMPLE");
  Policy policy;
  policy.backend = *name;
  const auto selection = select(float32(), this_cpu_platform(), policy, *registry);
  ASSERT_TRUE(selection->ok()) << selection->error->message;
  const Result<Row> row = selected_row(*selection, *registry);
  ASSERT_TRUE(row.ok());
  for (const bool causal : {true, false}) {
    for (const int threads : {1, 3}) {
      Batch batch;
      batch.args.causal = causal;
      attention::RunOptions options;
      options.num_threads = threads;
      const Status status = attention::attend(*row->implementation, batch.args, options);
      ASSERT_TRUE(status.ok()) << status.error().message;
      std::vector<double> out(batch.out.size());
      std::vector<double> lse(batch.lse.size());
      ASSERT_TRUE(attention::reference(batch.args, out.data(), lse.data()).ok());
      for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(batch.out[i], out[i], 2e-5);
      for (std::size_t i = 0; i < lse.size(); ++i) {
        if (std::isinf(lse[i])) {
          EXPECT_EQ(batch.lse[i], lse[i]);
        } else {
          EXPECT_NEAR(batch.lse[i], lse[i], 1e-5);
        }
      }
    }
  }
}

TEST(Plugin, RowIsCheckedLikeAnyOther) {
  Registry registry;
  ASSERT_TRUE(load_plugin(example(), registry).ok());
  Policy policy;
  policy.backend = "EXAMPLE";
  Problem half = float32();
  half.dtype = DType::kFloat16;
  half.dims.v_head_dim = 1025;
  const Selection selection = select_uncached(half, this_cpu_platform(), policy, registry);
  ASSERT_EQ(selection.rejected.size(), 1u);
  ASSERT_EQ(selection.rejected[0].reasons.size(), 2u);
  EXPECT_EQ(selection.rejected[0].reasons[0].code, ReasonCode::kDtypeUnsupported);
  EXPECT_EQ(selection.rejected[0].reasons[1].code, ReasonCode::kDimensionsUnsupported);
}

TEST(Plugin, NameThatIsTaken) {
  Registry registry;
  ASSERT_TRUE(load_plugin(example(), registry).ok());
  const Result<std::string> again = load_plugin(example(), registry);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyRegistered);
  EXPECT_THAT(again.error().message, HasSubstr(example()));
}

TEST(Plugin, CanTakeTheNameOfABuiltInRow) {
  const auto registry = make_builtin_registry();
  ASSERT_TRUE(registry->override_backend("CPU", *plugin_row(example())).ok());
  Policy policy;
  policy.disabled = {"ZEN_CPU"};
  const Selection selection = select_uncached(float32(), this_cpu_platform(), policy, *registry);
  EXPECT_EQ(selection.full_name(), "CPU");
  EXPECT_NE(selected_row(selection, *registry)->implementation, nullptr);
}

struct Unloadable {
  std::string path;
  std::string says;
};

TEST(Plugin, WhatIsWrongWithALibraryIsSaid) {
  const Unloadable cases[] = {
      {"/no/such/plugin.so", "cannot open shared object file"},
      {"", "plug-in "},
      {MLA_SOURCE_DIR "/README.md", "README.md"},
      {faulty("no_symbol"), "exports no mla_plugin()"},
      {faulty("no_table"), "returned no table"},
      {faulty("small_struct"), "struct_size of mla_plugin_api is 8"},
      {faulty("row_struct"), "struct_size of mla_plugin_row is 4"},
      {faulty("version"), "abi_version is 99"},
      {faulty("no_run"), "no run function"},
      {faulty("traits"), "alignment 24"},
  };
  for (const Unloadable& c : cases) {
    Registry registry;
    const Result<std::string> name = load_plugin(c.path, registry);
    ASSERT_FALSE(name.ok()) << c.path;
    EXPECT_EQ(name.error().code, ErrorCode::kNotLoadable) << c.path;
    EXPECT_THAT(name.error().message, HasSubstr(c.says));
    EXPECT_THAT(name.error().message, HasSubstr(c.path));
    EXPECT_EQ(registry.names().size(), 1u) << "nothing is registered on an error";
  }
  Registry registry;
  EXPECT_EQ(load_plugin(faulty("name"), registry).error().code, ErrorCode::kInvalidName);
}

TEST(Plugin, ProbeThatFailsIsAReason) {
  Registry registry;
  ASSERT_TRUE(load_plugin(faulty("probe"), registry).ok());
  Policy policy;
  policy.backend = "FAULTY";
  const Selection selection = select_uncached(float32(), this_cpu_platform(), policy, registry);
  ASSERT_EQ(selection.rejected.size(), 1u);
  EXPECT_EQ(selection.rejected[0].reasons[0].text, "library not loadable: libvendor.so: not found");
}

TEST(Plugin, FaultsOfARunAreErrors) {
  const auto error_of = [](const std::string& fault) {
    const Result<Row> row = plugin_row(faulty(fault));
    EXPECT_TRUE(row.ok()) << fault;
    Batch batch;
    const Status status = attention::attend(*row->implementation, batch.args);
    EXPECT_FALSE(status.ok()) << fault;
    return status.ok() ? Error{} : status.error();
  };
  EXPECT_EQ(error_of("run").code, ErrorCode::kBackendFailed);
  EXPECT_EQ(error_of("run").message, "FAULTY: run: the device fell over");
  EXPECT_EQ(error_of("silent").message, "FAULTY: run: status 3 without a message");
  EXPECT_EQ(error_of("throws").message, "FAULTY: run: threw an exception");
  EXPECT_EQ(error_of("plan").code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(error_of("plan").message, HasSubstr("FAULTY: plan: xxxx"));
  EXPECT_EQ(error_of("workspace").code, ErrorCode::kOutOfMemory);
}

TEST(Plugin, UnsupportedBatchIsNotAFailure) {
  const Result<Row> row = plugin_row(example());
  ASSERT_TRUE(row.ok());
  Batch batch;
  batch.args.dtype = DType::kBFloat16;
  batch.args.out_dtype = DType::kBFloat16;
  const Status status = row->implementation->attend(batch.args, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(status.error().message, "EXAMPLE: supports: writes float32 only");
}

TEST(Plugin, ExampleKeepsTheContract) {
  const Result<Row> row = plugin_row(example());
  ASSERT_TRUE(row.ok());
  const conformance::Subject subject{row->full_name(), row->implementation.get(), row->needs.dtypes,
                                     row->needs.dims};
  conformance::Options options;
  options.random_batches = 5;
  EXPECT_TRUE(conformance::check_all(subject, options, [](const conformance::Verdict& verdict) {
    EXPECT_NE(verdict.outcome, conformance::Outcome::kFailed)
        << verdict.property << ": " << verdict.detail;
  }));
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(Plugin, TheDocumentsExampleIsTheTestedOne) {
  const std::string code = read(MLA_SOURCE_DIR "/tests/registry/example_plugin.cc");
  ASSERT_FALSE(code.empty());
  EXPECT_THAT(read(MLA_SOURCE_DIR "/docs/adding-a-backend.md"), HasSubstr(code));
}

}  // namespace
}  // namespace mla
