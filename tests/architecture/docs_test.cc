// The documents against what they speak of: a program in a page is the file that is compiled and
// run, and every link leads somewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "architecture/sources.h"

namespace mla::architecture {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

// The pages that belong to the repository, not those below build/ and .venv/.
std::vector<fs::path> pages() {
  const fs::path root = MLA_SOURCE_DIR;
  std::vector<fs::path> found;
  for (const char* folder : {"", "docs", "src", "python", "bench"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  return found;
}

TEST(Docs, ProgramsInPagesAreTheFilesThatAreRun) {
  const std::regex block(R"(<!-- (\S+) -->\n```cpp\n)");
  int seen = 0;
  for (const fs::path& page : pages()) {
    const std::string text = text_of(page);
    for (std::sregex_iterator it(text.begin(), text.end(), block), end; it != end; ++it) {
      const std::size_t begin = static_cast<std::size_t>(it->position() + it->length());
      const std::string shown = text.substr(begin, text.find("```\n", begin) - begin);
      EXPECT_EQ(shown, text_of(fs::path(MLA_SOURCE_DIR) / (*it)[1].str())) << page;
      ++seen;
    }
  }
  EXPECT_GE(seen, 2);
}

TEST(Docs, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  int seen = 0;
  for (const fs::path& page : pages()) {
    const std::string text = text_of(page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1];
      if (starts_with(target, "http")) continue;
      EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " links to " << target;
      ++seen;
    }
  }
  EXPECT_GT(seen, 10);
}

TEST(Docs, PagesThatSourcesSpeakOfExist) {
  const std::regex mention(R"(\bdocs/[A-Za-z0-9_-]+\.md\b)");
  const fs::path root = MLA_SOURCE_DIR;
  int seen = 0;
  for (const char* folder : {"include", "src", "cli", "bench", "conformance", "python", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || entry.path().extension() == ".jsonl") continue;
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator it(text.begin(), text.end(), mention), end; it != end; ++it) {
        EXPECT_TRUE(fs::exists(root / it->str())) << entry.path() << " speaks of " << it->str();
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 10);
}

}  // namespace
}  // namespace mla::architecture
