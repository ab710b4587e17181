// What scripts rely on: the keys of every JSON output, in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "process.h"

namespace mla::cli {
namespace {

using Json = nlohmann::ordered_json;
using Keys = std::vector<std::string>;

Json answer(const std::vector<std::string>& arguments, int code = 0, const Streams& streams = {}) {
  const Outcome outcome = mla(arguments, streams);
  EXPECT_EQ(outcome.code, code) << testing::PrintToString(arguments) << outcome.err;
  return Json::parse(outcome.out);
}

Keys keys_of(const Json& object) {
  Keys keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(Json, Devices) {
  const Json json = answer({"devices", "--json"});
  EXPECT_EQ(keys_of(json), (Keys{"cpu", "gpus", "drivers", "selected_platform"}));
  EXPECT_EQ(keys_of(json.at("cpu")),
            (Keys{"name", "vendor", "family", "model", "isa", "isa_refused", "caches",
                  "logical_cpus", "usable_threads", "threads_limited_by"}));
  EXPECT_GE(json.at("cpu").at("usable_threads").get<int>(), 1);
}

// OpenMP then narrows the main thread's affinity mask to one CPU before main().
TEST(Json, DevicesCountsTheThreadsThatOpenMpBinds) {
  Streams streams;
  streams.environment = {"OMP_PROC_BIND=false"};
  const Json free = answer({"devices", "--json"}, 0, streams);
  streams.environment = {"OMP_PROC_BIND=true", "OMP_PLACES=threads"};
  const Json bound = answer({"devices", "--json"}, 0, streams);
  EXPECT_EQ(bound.at("cpu").at("usable_threads"), free.at("cpu").at("usable_threads"));
  EXPECT_EQ(bound.at("cpu").at("threads_limited_by"), free.at("cpu").at("threads_limited_by"));
}

TEST(Json, Backends) {
  const Json json = answer({"backends", "--json"});
  EXPECT_EQ(keys_of(json), (Keys{"rows", "unregistered"}));
  EXPECT_EQ(keys_of(json.at("rows").at(0)), (Keys{"backend", "variant", "description", "needs",
                                                  "fits_here", "runs_here", "reasons"}));
  bool portable = false;
  for (const Json& row : json.at("rows")) {
    portable = portable || (row.at("variant") == "portable" && row.at("runs_here").get<bool>());
    EXPECT_TRUE(row.at("fits_here").get<bool>() || !row.at("reasons").empty()) << row;
  }
  EXPECT_TRUE(portable);
}

TEST(Json, Model) {
  const Keys keys = {"dims",  "kv_lora_rank",  "q_lora_rank", "num_heads",
                     "dtype", "softmax_scale", "error"};
  EXPECT_EQ(keys_of(answer({"model", "deepseek-v3", "--json"})), keys);
  const Json broken = answer({"model", "/nowhere/config.json", "--json"}, 2);
  EXPECT_EQ(keys_of(broken), keys);
  EXPECT_EQ(broken.at("error").at("code"), "not_readable");
  const Json all = answer({"model", "--json"});
  EXPECT_GE(all.at("models").size(), 7U);
}

TEST(Json, Select) {
  const Keys keys = {"selected", "variant", "explicit", "fallback", "note", "rejected", "error"};
  EXPECT_EQ(keys_of(answer({"select", "--model", "deepseek-v3", "--json"})), keys);
  EXPECT_EQ(keys_of(answer({"explain", "--model", "deepseek-v3", "--json"})), keys);
  const Json failed = answer({"select", "--dims", "1,2,3", "--backend", "NO", "--json"}, 1);
  EXPECT_EQ(keys_of(failed), keys);
  EXPECT_EQ(failed.at("error").at("code"), "unknown_backend");
  const Json invalid = answer({"select", "--dims", "1,2", "--json"}, 2);
  EXPECT_EQ(invalid.at("error").at("code"), "invalid_request");
}

TEST(Json, Matrix) {
  const Json json = answer({"matrix", "--model", "deepseek-v3,glm-5", "--json"});
  EXPECT_EQ(keys_of(json), (Keys{"models", "platforms", "cells"}));
  EXPECT_EQ(json.at("cells").size(), json.at("platforms").size() * 2);
  Keys ids;
  for (const Json& platform : json.at("platforms")) ids.push_back(platform.at("id"));
  for (const char* id :
       {"here", "sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950"}) {
    EXPECT_NE(std::find(ids.begin(), ids.end(), id), ids.end()) << id;
  }
}

TEST(Json, Run) {
  const Json json = answer({"run", "--platform", "cpu", "--requests", "5,0,3+20", "--heads", "2",
                            "--threads", "1", "--json"});
  EXPECT_EQ(keys_of(json), (Keys{"machine", "model", "selection", "note", "batch", "method", "plan",
                                 "threads", "verification", "speed"}));
  EXPECT_TRUE(json.at("verification").at("passed").get<bool>());
  EXPECT_GE(json.at("verification").at("rows").get<int>(), 8);
  EXPECT_EQ(json.at("speed").at("clock"), "thread CPU time");
}

TEST(Json, RunOnEveryDtypeAndRow) {
  const Json backends = answer({"backends", "--json"});
  for (const Json& row : backends.at("rows")) {
    if (!row.at("runs_here").get<bool>()) continue;
    const std::string name =
        row.at("backend").get<std::string>() + ":" + row.at("variant").get<std::string>();
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
      const Json json = answer({"run", "--backend", name, "--dtype", dtype, "--requests", "33,1+40",
                                "--heads", "2", "--json"});
      EXPECT_TRUE(json.at("verification").at("passed").get<bool>()) << name << dtype;
      EXPECT_EQ(json.at("selection").at("variant"), row.at("variant"));
    }
  }
}

TEST(Json, Bench) {
  const Json json = answer({"bench", "--backend", "CPU:portable", "--shapes", "prompt-128",
                            "--threads", "1", "--min-samples", "1", "--json"});
  EXPECT_EQ(keys_of(json),
            (Keys{"machine", "dtype", "dims", "figures", "comparisons", "rows_not_run"}));
  const Json& figure = json.at("figures").at(0);
  EXPECT_TRUE(figure.at("verified").get<bool>());
  EXPECT_GT(figure.at("gflops_median").get<double>(), 0.0);
}

TEST(Json, BenchPrefill) {
  const Json json = answer({"bench", "prefill", "--backend", "CPU:portable", "--new", "1,9",
                            "--context", "0,20", "--heads", "2", "--max-seconds", "0.1", "--json"});
  EXPECT_EQ(json.at("points").size(), 4U);
  for (const Json& point : json.at("points")) {
    EXPECT_GT(point.at("absorbed_over_expanded").get<double>(), 0.0);
    EXPECT_GE(point.at("loss").get<double>(), 0.0);
    EXPECT_TRUE(point.at("chosen") == "expanded" || point.at("chosen") == "absorbed");
    EXPECT_GT(point.at("bandwidth_gb_per_second").get<double>(), 0.0);
    // The lower of two bounds leaves at least as large a share as either of them.
    EXPECT_GE(point.at("absorbed_share_of_bound").get<double>(),
              0.999 * point.at("absorbed").at("share_median").get<double>());
    EXPECT_TRUE(point.at("absorbed_bound") == "memory" ||
                point.at("absorbed_bound") == "multiply-adds");
  }
}

TEST(Json, CheckListsItsProperties) {
  EXPECT_GE(answer({"check", "--list", "--json"}).at("properties").size(), 10U);
}

}  // namespace
}  // namespace mla::cli
