// Whatever a user does wrong gives one clear line on stderr and the exit code for its kind.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "process.h"

namespace mla::cli {
namespace {

struct Mistake {
  std::vector<std::string> arguments;
  int code;
  std::string says;  // part of the line
  std::string in = "";
};

void expect_one_line(const Mistake& mistake) {
  Streams streams;
  streams.in = mistake.in;
  const Outcome outcome = mla(mistake.arguments, streams);
  const std::string given = testing::PrintToString(mistake.arguments);
  EXPECT_EQ(outcome.code, mistake.code) << given << outcome.err;
  EXPECT_EQ(lines_in(outcome.err), 1) << given << outcome.err;
  EXPECT_EQ(outcome.err.rfind("mla: ", 0), 0U) << given << outcome.err;
  EXPECT_NE(outcome.err.find(mistake.says), std::string::npos) << given << outcome.err;
  EXPECT_EQ(outcome.out, "") << given;
}

TEST(Errors, BadUsage) {
  const std::vector<Mistake> mistakes = {
      {{"nonsense"}, 2, "nonsense"},
      {{"--nonsense"}, 2, "--nonsense"},
      {{"select", "--nonsense"}, 2, "mla select --help"},
      {{"select"}, 2, "dims"},
      {{"select", "--dims"}, 2, "--dims"},
      {{"select", "--dims", "1,2"}, 2, "--dims"},
      {{"select", "--dims", "1,2,x"}, 2, "--dims"},
      {{"select", "--dims", "1,2,3", "--capability", "ten"}, 2, "--capability"},
      {{"select", "--dims", "1,2,3", "--platform", "tpu"}, 2, "tpu"},
      {{"select", "--dims", "1,2,3", "--dtype", "int4"}, 2, "int4"},
      {{"select", "--dims", "1,2,3", "--compat", "sglang"}, 2, "compat"},
      {{"select", "--dims", "1,2,3", "--cpu", "{\"isa\""}, 2, "--cpu"},
      {{"select", "--dims", "1,2,3", "--model", "glm-5"}, 2, "--model"},
      {{"select", "--jsonl", "--dims", "1,2,3"}, 2, "--jsonl"},
      {{"select", "--jsonl", "--json"}, 2, "--json"},
      {{"select", "--dims", "1,2,3", "--disabled", "CPU,FLASH_ATN"}, 2, "--disabled"},
      {{"select", "--dims", "1,2,3", "--unloadable", "CPU:avx3"}, 2, "avx3"},
      {{"explain", "--dims", "1,2,3", "--not-installed", "cpu"}, 2, "--not-installed"},
      {{"select", "--dims", "1,2,3", "--platform", "cuda", "--arch", "gfx942"}, 2, "arch"},
      {{"run", "--requests", "12,x"}, 2, "request 2 is 'x'"},
      {{"run", "--requests", ""}, 2, "--requests"},
      {{"run", "--requests", "1099511627776"}, 2, "of memory"},
      {{"run", "--threads", "-1"}, 2, "--threads"},
      {{"run", "--threads", "0"}, 2, "--threads"},
      {{"run", "--heads", "0"}, 2, "--heads"},
      {{"run", "--backend", ""}, 2, "--backend"},
      {{"run", "--dtype", ""}, 2, "--dtype"},
      {{"select", "--dims", "1,2,3", "--backend", ""}, 2, "--backend"},
      {{"select", "--dims", "1,2,3", "--platform", ""}, 2, "--platform"},
      {{"explain", "--dims", "1,2,3", "--dtype="}, 2, "--dtype"},
      {{"check", "--backend", ""}, 2, "--backend"},
      {{"bench", "--shapes", ""}, 2, "--shapes"},
      {{"bench", "prefill", "--backend", ""}, 2, "--backend"},
      {{"matrix", "--model", ""}, 2, "--model"},
      {{"model", ""}, 2, "CONFIG"},
      {{"--plugin", "", "devices"}, 2, "--plugin"},
      {{"run", "--threads", "many"}, 2, "--threads"},
      {{"run", "--heads", "17"}, 2, "--heads"},
      {{"run", "--dtype", "int4"}, 2, "--dtype"},
      {{"run", "--platform", "tpu"}, 2, "--platform"},
      {{"bench", "--shapes", "round"}, 2, "prompt-2048"},
      {{"bench", "--dtype", "fp8_e4m3"}, 2, "--dtype"},
      {{"bench", "--threads", "0"}, 2, "--threads"},
      {{"bench", "prefill", "--new", "0"}, 2, "--new"},
      {{"bench", "prefill", "--dtype", "int4"}, 2, "--dtype"},
      {{"matrix", "--dtype", "x"}, 2, "--dtype"},
      {{"matrix", "--model", "nobody"}, 2, "nobody"},
      {{"--plugin", "/nowhere.so", "devices"}, 2, "/nowhere.so"},
      {{"check", "--plugin", "/nowhere.so"}, 2, "/nowhere.so"},
  };
  for (const Mistake& mistake : mistakes) expect_one_line(mistake);
}

TEST(Errors, Selection) {
  const std::vector<Mistake> mistakes = {
      {{"select", "--dims", "1,2,3", "--backend", "NOBODY"}, 1, "FLASH_ATTN"},
      {{"select", "--dims", "1,2,3", "--platform", "cuda", "--capability", "9.0"}, 1, "dimensions"},
      {{"run", "--backend", "NOBODY"}, 1, "NOBODY"},
      {{"run", "--backend", "CPU:sse"}, 1, "sse"},
      {{"run", "--dtype", "fp8_e4m3"}, 1, "float8_e4m3"},
      {{"check", "--backend", "NOBODY"}, 1, "NOBODY"},
      {{"bench", "--backend", "NOBODY"}, 1, "NOBODY"},
      {{"check", "--backend", "CUSTOM"}, 1, "CUSTOM"},
  };
  for (const Mistake& mistake : mistakes) expect_one_line(mistake);
}

TEST(Errors, BadInput) {
  const std::string broken = temporary_file("{\"qk_nope_head_dim\": ");
  const std::string not_mla = temporary_file(R"({"model_type": "llama", "hidden_size": 8})");
  const std::string directory = testing::TempDir();
  for (const std::string command : {"run", "select", "explain", "matrix"}) {
    expect_one_line({{command, "--model", broken}, 2, broken});
    expect_one_line({{command, "--model", not_mla}, 2, not_mla});
    expect_one_line({{command, "--model", "/nowhere/config.json"}, 2, "/nowhere/config.json"});
    expect_one_line({{command, "--model", directory}, 2, directory});
    expect_one_line({{command, "--model", "no-such-model"}, 2, "no-such-model"});
  }
  expect_one_line({{"model", broken}, 2, broken});
  expect_one_line({{"model", "-"}, 2, "stdin"});
  expect_one_line({{"model", "-"}, 2, "stdin", "this is not JSON"});
  expect_one_line({{"model", "-"}, 2, "stdin", std::string(17 << 20, ' ')});
  expect_one_line({{"model", "with\nnewline\x1b[31m"}, 2, "\\n"});
}

TEST(Errors, EmptyStreamIsSaidButIsNoError) {
  expect_one_line({{"select", "--jsonl"}, 0, "stdin: is empty"});
  expect_one_line({{"model", "--jsonl"}, 0, "stdin: is empty"});
}

TEST(Errors, ABadLineIsAnsweredAndTheRunGoesOn) {
  Streams streams;
  const std::string good = R"({"dims": [128, 64, 128], "platform": "cuda", "capability": [9, 0]})";
  streams.in = good + "\nnonsense\n\n[]\n" + std::string(17 << 20, 'x') + "\n" +
               R"({"dims": "wide"})" + "\n" + good;
  const Outcome outcome = mla({"select", "--jsonl"}, streams);
  EXPECT_EQ(outcome.code, 0);
  ASSERT_EQ(lines_in(outcome.out), 7);
  std::size_t at = 0;
  for (int line = 0; line < 7; ++line) {
    const std::size_t end = outcome.out.find('\n', at);
    const auto answer = nlohmann::json::parse(outcome.out.substr(at, end - at));
    at = end + 1;
    if (line == 0 || line == 6) {
      EXPECT_EQ(answer.at("selected"), "FLASH_ATTN");
    } else {
      EXPECT_EQ(answer.at("error").at("code"), "invalid_request") << line;
    }
  }
}

TEST(Errors, StdoutThatCannotBeWritten) {
  Streams full;
  full.out_path = "/dev/full";
  Streams closed;
  closed.closed_pipe = true;
  for (const std::string command : {"devices", "matrix", "backends", "model"}) {
    const Outcome no_space = mla({command}, full);
    EXPECT_EQ(no_space.code, 2);
    EXPECT_EQ(no_space.err, "mla: stdout: No space left on device\n");
    const Outcome nobody_reads = mla({command, "--json"}, closed);
    EXPECT_EQ(nobody_reads.code, 2);
    EXPECT_EQ(nobody_reads.err, "mla: stdout: Broken pipe\n");
  }
  closed.in = "{}\n{}\n";
  EXPECT_EQ(mla({"select", "--jsonl"}, closed).err, "mla: stdout: Broken pipe\n");
}

}  // namespace
}  // namespace mla::cli
