// What nm says of the library: instruction-set objects export their table and nothing the linker
// could pick for other code (an inlined function compiled for AVX-512 would crash older machines),
// and the library calls nothing that prints or ends the process.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace mla::architecture {
namespace {

struct Symbol {
  char type = '?';
  std::string name;  // demangled
};

std::vector<Symbol> symbols(const std::string& file, const std::string& options) {
  const std::string command = std::string(MLA_NM) + " --demangle " + options + " '" + file + "'";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), got);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  // "[address] type name"
  static const std::regex pattern(R"(^(?:[0-9a-f]+)?\s+(\w) (.+)$)");
  std::vector<Symbol> found;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, pattern)) found.push_back({match[1].str()[0], match[2]});
  }
  return found;
}

std::vector<std::string> objects() {
  std::ifstream list(MLA_OBJECT_LIST);
  std::vector<std::string> files;
  for (std::string file; std::getline(list, file);) {
    if (!file.empty()) files.push_back(file);
  }
  return files;
}

bool is_isa_object(const std::string& file) {
  return file.find("/attention/cpu/isa/") != std::string::npos &&
         file.find("/kernels") != std::string::npos;
}

TEST(IsaObjects, ExportTheirTableAndNothingTheLinkerMayChoose) {
  int seen = 0;
  for (const std::string& file : objects()) {
    if (!is_isa_object(file)) continue;
    ++seen;
    std::vector<std::string> exported;
    for (const Symbol& symbol : symbols(file, "--defined-only --extern-only")) {
      EXPECT_EQ(std::string("VvWwu").find(symbol.type), std::string::npos)
          << file << ": " << symbol.type << " " << symbol.name;
      exported.push_back(symbol.name);
    }
    EXPECT_EQ(exported.size(), 1u) << file;
    for (const std::string& name : exported) {
      EXPECT_TRUE(std::regex_match(name, std::regex(R"(mla::attention::cpu::\w+(\(\))?)"))) << name;
    }
  }
  EXPECT_GE(seen, 1);
}

TEST(IsaObjects, NeedNothingButMemoryAndTheCLibrary) {
  const std::set<std::string> allowed = {"memcpy",
                                         "memset",
                                         "memmove",
                                         "_GLOBAL_OFFSET_TABLE_",
                                         "__stack_chk_fail",
                                         "clock_gettime",
                                         "syscall",
                                         "exp2f",
                                         "log2f",
                                         "exp2",
                                         "log2",
                                         "expf",
                                         "log",
                                         "logf",
                                         "fmaf",
                                         "sqrtf"};
  for (const std::string& file : objects()) {
    if (!is_isa_object(file)) continue;
    for (const Symbol& symbol : symbols(file, "--undefined-only")) {
      const bool other_table =
          std::regex_match(symbol.name, std::regex(R"(mla::attention::cpu::\w+(\(\))?)"));
      EXPECT_TRUE(other_table || allowed.count(symbol.name)) << file << ": " << symbol.name;
    }
  }
}

TEST(Library, CallsNothingThatPrintsOrEndsTheProcess) {
  const std::set<std::string> forbidden = {
      "abort",        "exit",      "_exit",     "_Exit",  "quick_exit",
      "printf",       "vprintf",   "fprintf",   "puts",   "fputs",
      "fwrite",       "putchar",   "perror",    "stdout", "stderr",
      "std::cout",    "std::cerr", "std::clog", "system", "std::terminate()",
      "__assert_fail"};
  int seen = 0;
  for (const std::string& file : objects()) {
    const std::vector<Symbol> defined = symbols(file, "--defined-only");
    const bool from_clang = std::any_of(defined.begin(), defined.end(), [](const Symbol& symbol) {
      return symbol.name == "__clang_call_terminate";
    });
    for (const Symbol& symbol : symbols(file, "--undefined-only")) {
      // clang's cleanup of an exception that leaves a destructor, where g++ calls its own runtime.
      if (from_clang && symbol.name == "std::terminate()") continue;
      EXPECT_EQ(forbidden.count(symbol.name), 0u) << file << ": " << symbol.name;
      ++seen;
    }
  }
  EXPECT_GT(seen, 100);
}

}  // namespace
}  // namespace mla::architecture
