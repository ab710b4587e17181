// The repository's sources as the architecture tests see them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mla::architecture {

struct Source {
  std::string path;  // below the repository's root, "src/core/dims.cc"
  std::vector<std::string> lines;
};

inline Source read_source(const std::filesystem::path& file) {
  Source source;
  source.path = file.lexically_relative(MLA_SOURCE_DIR).generic_string();
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) source.lines.push_back(line);
  return source;
}

// All .h and .cc files below `folders` of the repository, in order of their paths.
inline std::vector<Source> sources(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const std::string& folder : folders) {
    const fs::path root = fs::path(MLA_SOURCE_DIR) / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cc") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Source> all;
  for (const fs::path& file : files) all.push_back(read_source(file));
  return all;
}

inline bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

}  // namespace mla::architecture
