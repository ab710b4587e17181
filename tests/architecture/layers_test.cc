// The layer table of src/README.md, read from the #include lines: an arrow that is not in the table
// is a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "architecture/sources.h"

namespace mla::architecture {
namespace {

using Names = std::set<std::string>;

// A layer may include itself and these.
const std::map<std::string, Names> kMayInclude = {
    {"core", {}},
    {"config", {"core"}},
    {"platform", {"core"}},
    {"attention", {"core"}},
    {"registry", {"core", "config", "platform"}},
    {"selector", {"core", "config", "platform", "registry"}},
    {"prefill", {"core", "config", "registry", "selector", "attention"}},
};

// Files that may include more than their layer.
const std::map<std::string, Names> kExceptions = {
    {"src/registry/builtin.cc", {"attention"}},  // names the CPU rows' kernels
    {"src/registry/plugin.cc", {"attention"}},   // adapts a plug-in's C table to an implementation
};

// Public headers that are not called after their layer.
const std::map<std::string, std::string> kHeaderLayer = {{"cache_pool", "prefill"},
                                                         {"plugin", "registry"}};

// Users of the library: only public headers, and files of their own folder.
const std::vector<std::string> kUsers = {"cli", "bench", "conformance", "python"};

struct Include {
  std::string path;
  int line = 0;
};

std::vector<Include> quoted_includes(const Source& source) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*"([^"]+)")re");
  std::vector<Include> found;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::smatch match;
    if (std::regex_search(source.lines[i], match, pattern)) {
      found.push_back({match[1], static_cast<int>(i) + 1});
    }
  }
  return found;
}

std::string first_part(const std::string& path) { return path.substr(0, path.find('/')); }

// The layer of an include or of a file below src/ or include/; none: not one of ours.
std::optional<std::string> layer_of(std::string path) {
  if (starts_with(path, "src/")) path = path.substr(4);
  if (starts_with(path, "include/")) path = path.substr(8);
  if (starts_with(path, "mla/")) {
    const std::string stem = path.substr(4, path.find('.') - 4);
    const auto named = kHeaderLayer.find(stem);
    path = named != kHeaderLayer.end() ? named->second : stem;
  }
  const std::string layer = first_part(path);
  return kMayInclude.count(layer) != 0 ? std::optional(layer) : std::nullopt;
}

std::string at(const Source& source, const Include& include) {
  return source.path + ":" + std::to_string(include.line) + " includes \"" + include.path + "\"";
}

TEST(Layers, EveryArrowIsInTheTable) {
  int arrows = 0;
  for (const Source& source : sources({"src", "include"})) {
    const auto layer = layer_of(source.path);
    ASSERT_TRUE(layer) << source.path << " lies in no layer of the table";
    Names allowed = kMayInclude.at(*layer);
    allowed.insert(*layer);
    const auto more = kExceptions.find(source.path);
    if (more != kExceptions.end()) allowed.insert(more->second.begin(), more->second.end());
    for (const Include& include : quoted_includes(source)) {
      const auto target = layer_of(include.path);
      ASSERT_TRUE(target) << at(source, include) << ", which is no path of a layer";
      EXPECT_TRUE(allowed.count(*target))
          << at(source, include) << ": " << *layer << " may not include " << *target;
      ++arrows;
    }
  }
  EXPECT_GT(arrows, 50);  // the test sees the sources at all
}

TEST(Layers, TheTableHasNoCycle) {
  for (const auto& [layer, below] : kMayInclude) {
    for (const std::string& other : below) {
      EXPECT_EQ(kMayInclude.at(other).count(layer), 0u) << layer << " and " << other;
    }
  }
}

TEST(Layers, PublicHeadersIncludeOnlyPublicHeaders) {
  for (const Source& source : sources({"include"})) {
    for (const Include& include : quoted_includes(source)) {
      EXPECT_TRUE(starts_with(include.path, "mla/")) << at(source, include);
    }
  }
}

TEST(Layers, UsersIncludeOnlyPublicHeaders) {
  const std::filesystem::path root = MLA_SOURCE_DIR;
  for (const Source& source : sources(kUsers)) {
    const std::string folder = first_part(source.path);
    for (const Include& include : quoted_includes(source)) {
      const std::filesystem::path here = (root / source.path).parent_path();
      const bool own = std::filesystem::exists(here / include.path) ||
                       std::filesystem::exists(root / folder / include.path) ||
                       starts_with(include.path, folder + "/");
      const bool generated = include.path == "html_parts.h";  // by cli/embed.cmake
      // The benchmark and the command line share the conformance suite as a library.
      const bool suite =
          starts_with(include.path, "conformance/") || starts_with(include.path, "bench/");
      EXPECT_TRUE(own || generated || suite || starts_with(include.path, "mla/"))
          << at(source, include);
    }
  }
}

// It may ask for a table of kernels, not name one: neither an instruction set, nor a row of the
// registry, nor a constant that holds a table. Comments may.
bool names_instruction_set(const std::string& line) {
  static const std::regex name(R"(portable|neon|avx|amx|sse\d)", std::regex::icase);
  const std::string code = line.substr(0, line.find("//"));
  if (code.find("CPU:") != std::string::npos) return true;
  for (std::sregex_iterator found(code.begin(), code.end(), name), end; found != end; ++found) {
    const auto at = static_cast<std::size_t>(found->position());
    // Within a word only behind the k of a constant, or an underscore: "possesses" is none.
    const char before = at == 0 ? ' ' : code[at - 1];
    const bool constant = before == 'k' && (at < 2 || std::isalnum(code[at - 2]) == 0);
    if (std::isalnum(before) == 0 || constant) return true;
  }
  return false;
}

TEST(Layers, ANameOfAnInstructionSetIsSeen) {
  for (const char* line :
       {R"(policy.backend = "CPU:avx2";)", R"(if (name == "amx") return;)", "&kAmxKernels",
        "extern const cpu::Kernels kAvx512Bf16Kernels;", "use_avx2(x);", "is_neon", "kPortable",
        R"(config.backend = "CPU:" + name;)"}) {
    EXPECT_TRUE(names_instruction_set(line)) << line;
  }
  for (const char* line : {"g.kernels->name", "assemble(x);  // as avx2 does", "possesses",
                           "const cpu::Kernels& kernels_;", "int hamx;"}) {
    EXPECT_FALSE(names_instruction_set(line)) << line;
  }
}

TEST(Layers, PrefillKnowsNoInstructionSet) {
  for (const Source& source : sources({"src/prefill"})) {
    for (const Include& include : quoted_includes(source)) {
      if (!starts_with(include.path, "attention/cpu/")) continue;
      EXPECT_EQ(include.path, "attention/cpu/kernels.h") << at(source, include);
    }
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(names_instruction_set(line)) << source.path << ": " << line;
    }
  }
}

// What the operating system, the compiler and the CPU are is the platform layer's to know. The
// table of compiled-in instruction sets is where the build's answer is read.
TEST(Layers, OnlyThePlatformAsksForCompilerOrSystem) {
  const std::regex macro(
      R"(^\s*#\s*(if|ifdef|ifndef|elif).*\b(__linux__|__APPLE__|_WIN32|__x86_64__|__aarch64__|__clang__|__GNUC__|_MSC_VER|__AVX\w*)\b)");
  const Names homes = {"include/mla/core.h", "src/attention/cpu/isa/isa.cc"};
  for (const Source& source : sources({"src", "include", "cli", "conformance"})) {
    if (starts_with(source.path, "src/platform/") || homes.count(source.path) != 0) continue;
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(std::regex_search(line, macro)) << source.path << ": " << line;
    }
  }
}

}  // namespace
}  // namespace mla::architecture
