// The rules of CONTRIBUTING.md that can be read from the text: sizes, and what the library never
// does.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "architecture/sources.h"

namespace mla::architecture {
namespace {

const std::vector<std::string> kCode = {"src", "include", "cli", "bench", "conformance", "python"};

TEST(Sizes, PublicHeadersFitTwoHundredLines) {
  for (const Source& source : sources({"include"})) {
    EXPECT_LE(source.lines.size(), 200u) << source.path;
  }
}

TEST(Sizes, FilesFitFourHundredLinesAndKernelsSevenHundred) {
  for (const Source& source : sources(kCode)) {
    const bool kernel = starts_with(source.path, "src/attention/cpu/");
    EXPECT_LE(source.lines.size(), kernel ? 700u : 400u) << source.path;
  }
}

TEST(Sizes, TheMedianFileFitsOneHundredAndFiftyLines) {
  std::vector<std::size_t> sizes;
  for (const Source& source : sources(kCode)) sizes.push_back(source.lines.size());
  ASSERT_FALSE(sizes.empty());
  std::sort(sizes.begin(), sizes.end());
  EXPECT_LE(sizes[sizes.size() / 2], 150u);
}

// Text of a line without string literals, characters and comments.
std::string code_of(const std::string& line) {
  static const std::regex text(R"("(\\.|[^"\\])*"|'(\\.|[^'\\])')");
  const std::string without = std::regex_replace(line, text, "\"\"");
  return without.substr(0, without.find("//"));
}

// A body is taken for a function's when its opening line ends with "{" behind a ")"; it ends where
// its braces do.
std::size_t longest_function(const Source& source, std::size_t* first_line) {
  static const std::regex opening(R"(^\s*\S.*\).*\{$)");
  static const std::regex other(R"(^\s*(if|for|while|switch|else|do|\}|namespace|enum)\b.*)");
  std::size_t longest = 0;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& first = source.lines[i];
    if (!std::regex_match(first, opening) || std::regex_match(first, other)) continue;
    std::ptrdiff_t depth = 0;
    std::size_t end = i;
    for (; end < source.lines.size(); ++end) {
      const std::string code = code_of(source.lines[end]);
      depth += std::count(code.begin(), code.end(), '{');
      depth -= std::count(code.begin(), code.end(), '}');
      if (depth <= 0) break;
    }
    if (end < source.lines.size() && end - i + 1 > longest) {
      longest = end - i + 1;
      *first_line = i + 1;
    }
  }
  return longest;
}

TEST(Sizes, TheEndOfAFunctionIsItsOwnBrace) {
  std::size_t line = 0;
  EXPECT_EQ(longest_function({"", {"int f() {", "  if (x) {", "  }", "}", "}"}}, &line), 4u);
  EXPECT_EQ(line, 1u);
  const Source method{"",
                      {"class A {", "  int f(int a,", "        int b) {", "  }", "  int g(",
                       "      int b) const {", "    return 1;", "  }", "};"}};
  EXPECT_EQ(longest_function(method, &line), 3u);
  EXPECT_EQ(line, 6u);
}

TEST(Sizes, FunctionsFitSixtyLines) {
  std::size_t seen = 0;
  for (const Source& source : sources(kCode)) {
    std::size_t line = 0;
    const std::size_t longest = longest_function(source, &line);
    EXPECT_LE(longest, 60u) << source.path << ":" << line;
    seen = std::max(seen, longest);
  }
  EXPECT_GT(seen, 20u);  // the test sees functions at all
}

TEST(Library, NeverPrintsThrowsOrExits) {
  const std::regex forbidden(
      R"(\b(std::cout|std::cerr|std::clog|throw|abort|exit|_exit|quick_exit|terminate|printf|fprintf|puts|putchar|perror|system|assert)\b\s*[(<;\w])");
  for (const Source& source : sources({"src", "include"})) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string code = code_of(source.lines[i]);
      EXPECT_FALSE(std::regex_search(code, forbidden))
          << source.path << ":" << i + 1 << ": " << source.lines[i];
    }
  }
}

TEST(Library, ReadsNoEnvironmentVariable) {
  const std::regex forbidden(R"(\b(secure_)?getenv\b|\bsetenv\b)");
  for (const Source& source : sources({"src", "include"})) {
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(std::regex_search(code_of(line), forbidden)) << source.path << ": " << line;
    }
  }
}

TEST(Style, FewerThanTenMacrosAllOfThemOurs) {
  const std::regex define(R"(^\s*#\s*define\s+(\w+))");
  std::map<std::string, std::string> macros;
  for (const Source& source : sources({"src", "include"})) {
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (std::regex_search(line, match, define)) macros[match[1]] = source.path;
    }
  }
  EXPECT_LT(macros.size(), 10u);
  for (const auto& [name, path] : macros) {
    EXPECT_TRUE(starts_with(name, "MLA_")) << name << " in " << path;
  }
}

TEST(Style, EveryFileOpensWithWhatItIs) {
  for (const Source& source : sources({"src", "include", "cli", "bench", "conformance"})) {
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_TRUE(starts_with(source.lines[0], "// ")) << source.path;
  }
}

TEST(Style, HeadersAreGuardedByPragmaOnce) {
  for (const Source& source : sources(kCode)) {
    if (source.path.substr(source.path.size() - 2) != ".h") continue;
    EXPECT_EQ(std::count(source.lines.begin(), source.lines.end(), "#pragma once"), 1)
        << source.path;
  }
}

TEST(Style, NothingIsLeftToDo) {
  const std::regex mark(R"(\b(TODO|FIXME|XXX|HACK)\b)");
  for (const Source& source : sources({"src", "include", "cli", "bench", "conformance", "tests"})) {
    if (source.path == "tests/architecture/rules_test.cc") continue;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(source.lines[i], mark)) << source.path << ":" << i + 1;
    }
  }
}

}  // namespace
}  // namespace mla::architecture
