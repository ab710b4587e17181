// What people see: help everywhere, colour only where it belongs, pages that need nothing else.
#include <gtest/gtest.h>

#include "process.h"

namespace mla::cli {
namespace {

const std::vector<std::string> kCommands = {"devices", "backends", "model", "select", "explain",
                                            "matrix",  "run",      "check", "bench"};

TEST(Text, HelpOfEveryCommandHasExamples) {
  const Outcome top = mla({"--help"});
  EXPECT_EQ(top.code, 0);
  for (const std::string& command : kCommands) {
    EXPECT_NE(top.out.find("  " + command + " "), std::string::npos) << command;
    const Outcome help = mla({command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_NE(help.out.find("Usage: mla " + command), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("Examples:"), std::string::npos) << command;
    EXPECT_NE(help.out.find("--json"), std::string::npos) << command;
  }
}

TEST(Text, WithoutACommandThereIsHelp) {
  const Outcome outcome = mla({});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, mla({"--help"}).out);
}

TEST(Text, Version) { EXPECT_EQ(mla({"--version"}).out.rfind("mla ", 0), 0U); }

TEST(Text, ColourOnlyOnATerminalAndNotAgainstNoColor) {
  const std::string escape = "\033[";
  Streams terminal;
  terminal.terminal = true;
  terminal.environment = {"TERM=xterm", "NO_COLOR="};
  Streams refused = terminal;
  refused.environment = {"TERM=xterm", "NO_COLOR=1"};
  Streams dumb = terminal;
  dumb.environment = {"TERM=dumb", "NO_COLOR="};
  for (const std::string command : {"devices", "backends", "model", "matrix"}) {
    EXPECT_EQ(mla({command}).out.find(escape), std::string::npos) << command;
    EXPECT_NE(mla({command}, terminal).out.find(escape), std::string::npos) << command;
    EXPECT_EQ(mla({command}, refused).out.find(escape), std::string::npos) << command;
    EXPECT_EQ(mla({command}, dumb).out.find(escape), std::string::npos) << command;
    EXPECT_EQ(mla({command, "--json"}, terminal).out.find(escape), std::string::npos) << command;
  }
}

TEST(Text, ExplainNamesEveryRowAndReason) {
  const Outcome outcome = mla(
      {"explain", "--model", "deepseek-v3", "--platform", "cuda", "--capability", "9.0", "--all"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"FLASH_ATTN", "chosen", "TRTLLM_RAGGED", "CPU:avx2",
                           "compute capability 9.0 not supported", "platform cuda not supported"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  }
}

// Thousands of rows: the few that lie far out are within the limits too.
TEST(Text, ManyShortRequestsAreVerified) {
  for (const char* request : {"1", "3", "1+1"}) {
    std::string requests = request;
    for (int i = 1; i < 500; ++i) requests += std::string(",") + request;
    const Outcome outcome = mla({"run", "--heads", "1", "--requests", requests});
    EXPECT_EQ(outcome.code, 0) << request << ": " << outcome.err;
  }
}

TEST(Text, RunSaysWhatItDid) {
  const Outcome outcome = mla({"run", "--platform", "cpu", "--requests", "9,4+30", "--heads", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"Machine", "deepseek-v2-lite", "Selection", "Batch", "worst error", "GFLOP/s", "of peak"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  }
}

TEST(Text, NothingToComputeIsOneLine) {
  for (const char* requests : {"0", "0,0+100"}) {
    const Outcome outcome = mla({"run", "--platform", "cpu", "--requests", requests});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(lines_in(outcome.out), 1) << outcome.out;
  }
}

TEST(Text, CheckPrintsALineAProperty) {
  const Outcome outcome = mla({"check", "--list"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("masked_nan"), std::string::npos) << outcome.out;
}

TEST(Text, PagesAreSelfContained) {
  const std::vector<std::vector<std::string>> pages = {
      {"matrix", "--html"},
      {"bench", "--html", "--backend", "CPU:portable", "--shapes", "prompt-128", "--threads", "1",
       "--min-samples", "1"},
      {"bench", "prefill", "--html", "--backend", "CPU:portable", "--new", "1,9", "--context", "20",
       "--heads", "2", "--max-seconds", "0.1"}};
  for (const auto& arguments : pages) {
    const std::string html = mla(arguments).out;
    EXPECT_EQ(html.rfind("<!doctype html>", 0), 0U);
    for (const char* part : {"<style>", "<script>", "</html>", "id=\"data\""}) {
      EXPECT_NE(html.find(part), std::string::npos) << part;
    }
    for (const char* part : {"src=", "href=", "url(", "@import", "https://"}) {
      EXPECT_EQ(html.find(part), std::string::npos) << part;
    }
  }
}

}  // namespace
}  // namespace mla::cli
