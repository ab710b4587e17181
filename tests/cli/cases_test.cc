// The case files through the program: one line in, one line out, in order, the specified answer.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "process.h"

namespace mla::cli {
namespace {

using nlohmann::json;

std::vector<json> read_cases(const std::string& name) {
  std::ifstream file(std::string(MLA_TEST_DATA) + "/" + name);
  std::vector<json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(json::parse(line));
  return cases;
}

std::vector<json> answers_of(const std::string& command, const std::vector<json>& cases,
                             const char* key) {
  Streams streams;
  for (const json& one : cases) streams.in += one.at(key).dump() + "\n";
  const Outcome outcome = mla({command, "--jsonl"}, streams);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  std::vector<json> answers;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  return answers;
}

json short_form(const json& rejected) {
  json list = json::array();
  for (const json& row : rejected) {
    json codes = json::array();
    for (const json& reason : row.at("reasons")) codes.push_back(reason.at("code"));
    list.push_back({row.at("backend"), row.at("variant"), codes});
  }
  return list;
}

TEST(Cases, SelectionsByLine) {
  const std::vector<json> cases = read_cases("selection.jsonl");
  const std::vector<json> answers = answers_of("select", cases, "request");
  ASSERT_EQ(cases.size(), 800U);
  ASSERT_EQ(answers.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const json& expect = cases[i].at("expect");
    const json& answer = answers[i];
    for (const auto& [key, value] : expect.items()) {
      if (key == "error") {
        EXPECT_EQ(answer.at("error").at("code"), value) << cases[i];
      } else if (key == "message") {
        EXPECT_EQ(answer.at("error").at("message"), value) << cases[i];
      } else if (key == "rejected") {
        EXPECT_EQ(short_form(answer.at("rejected")), value) << cases[i];
      } else {
        EXPECT_EQ(answer.at(key), value) << cases[i];
      }
    }
  }
}

TEST(Cases, ModelsByLine) {
  const std::vector<json> cases = read_cases("models.jsonl");
  const std::vector<json> answers = answers_of("model", cases, "config");
  ASSERT_FALSE(cases.empty());
  ASSERT_EQ(answers.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const bool good = cases[i].contains("expect");
    const json& expect = good ? cases[i].at("expect") : cases[i].at("error");
    const json& got = good ? answers[i] : answers[i].at("error");
    for (const auto& [key, value] : expect.items()) {
      if (key == "softmax_scale") {
        EXPECT_NEAR(got.at(key).get<double>(), value.get<double>(), 1e-12) << cases[i].at("name");
      } else {
        EXPECT_EQ(got.at(key), value) << cases[i].at("name") << " " << key;
      }
    }
    EXPECT_EQ(answers[i].at("error").is_null(), good);
  }
}

// Flags and fields mean the same.
TEST(Cases, FlagsGiveTheAnswerOfTheirFields) {
  const Outcome by_flags =
      mla({"select", "--dims", "192,64,256", "--platform", "cuda", "--capability", "10.3",
           "--dtype", "fp16", "--not-installed", "TRTLLM_RAGGED,FLASH_ATTN", "--disabled",
           "FLASHINFER", "--backend", "TOKENSPEED_MLA", "--fallback", "--json"});
  Streams streams;
  streams.in =
      R"({"dims": [192, 64, 256], "platform": "cuda", "capability": [10, 3], "dtype": "float16",
          "not_installed": ["TRTLLM_RAGGED", "FLASH_ATTN"], "disabled": ["FLASHINFER"],
          "backend": "TOKENSPEED_MLA", "fallback": true})";
  std::erase(streams.in, '\n');
  const Outcome by_line = mla({"select", "--jsonl"}, streams);
  EXPECT_EQ(by_flags.out, by_line.out);
  EXPECT_EQ(by_flags.code, 1);  // nothing is left
  const Outcome cpu = mla({"select", "--dims", "128,64,128", "--platform", "cpu", "--cpu",
                           "AuthenticAMD:avx2,fma,f16c", "--json"});
  EXPECT_EQ(json::parse(cpu.out).at("selected"), "ZEN_CPU") << cpu.out << cpu.err;
  const Outcome model =
      mla({"select", "--model", "glm-5", "--platform", "cuda", "--capability", "10.0", "--json"});
  EXPECT_EQ(json::parse(model.out).at("selected"), "TRTLLM_RAGGED") << model.out << model.err;
}

}  // namespace
}  // namespace mla::cli
