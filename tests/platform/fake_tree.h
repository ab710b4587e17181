// A folder that looks like the root of some machine: the /proc and /sys files a test wants there.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mla::platform {

class FakeTree {
 public:
  FakeTree() {
    std::string name = (std::filesystem::temp_directory_path() / "mla_tree_XXXXXX").string();
    const char* made = mkdtemp(name.data());
    EXPECT_NE(made, nullptr);
    if (made != nullptr) root_ = made;
  }
  ~FakeTree() {
    std::error_code ignored;
    if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
  }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  void add(const std::string& path, const std::string& content) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace mla::platform
