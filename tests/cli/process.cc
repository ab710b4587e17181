// fork and exec with files for the streams, so that nothing can block; a pty where stdout is to be
// a terminal.
#include "process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace mla::cli {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Child {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string in_path;
  std::string out_path;
  std::string err_path;
  int out_fd = -1;  // used instead of out_path
};

[[noreturn]] void become(const Child& child) {
  const auto onto = [](int fd, int target) {
    if (fd < 0 || dup2(fd, target) < 0) _exit(120);
  };
  onto(open(child.in_path.c_str(), O_RDONLY), STDIN_FILENO);
  onto(child.out_fd >= 0 ? child.out_fd : open(child.out_path.c_str(), O_WRONLY), STDOUT_FILENO);
  onto(open(child.err_path.c_str(), O_WRONLY), STDERR_FILENO);
  for (const std::string& variable : child.environment) {
    const std::size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> argv;
  std::string program = MLA_PROGRAM;
  argv.push_back(program.data());
  std::vector<std::string> arguments = child.arguments;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(MLA_PROGRAM, argv.data());
  _exit(121);
}

int exit_code(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What is written to a pty comes back with \r\n.
std::string read_terminal(int terminal) {
  std::string text;
  char block[4096];
  for (ssize_t got; (got = read(terminal, block, sizeof block)) > 0;) {
    text.append(block, static_cast<std::size_t>(got));
  }
  text.erase(std::remove(text.begin(), text.end(), '\r'), text.end());
  return text;
}

}  // namespace

std::string temporary_file(const std::string& content) {
  struct Files {
    std::vector<std::string> paths;
    ~Files() {
      for (const std::string& path : paths) unlink(path.c_str());
    }
  };
  static Files files;
  std::string path = testing::TempDir() + "mla_cli_test_XXXXXX";
  const int fd = mkstemp(path.data());
  EXPECT_GE(fd, 0);
  close(fd);
  std::ofstream(path, std::ios::binary) << content;
  files.paths.push_back(path);
  return path;
}

int lines_in(const std::string& text) {
  EXPECT_TRUE(text.empty() || text.back() == '\n') << text;
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

Outcome mla(const std::vector<std::string>& arguments, const Streams& streams) {
  Child child{arguments,        streams.environment, temporary_file(streams.in),
              streams.out_path, temporary_file(""),  -1};
  int terminal = -1;
  if (streams.terminal) {
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    child.out_fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  } else if (streams.closed_pipe) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    close(ends[0]);
    child.out_fd = ends[1];
  } else if (child.out_path.empty()) {
    child.out_path = temporary_file("");
  }
  const pid_t pid = fork();
  if (pid == 0) become(child);
  if (child.out_fd >= 0) close(child.out_fd);
  Outcome outcome;
  if (terminal >= 0) {
    outcome.out = read_terminal(terminal);
    close(terminal);
  }
  outcome.code = exit_code(pid);
  if (child.out_fd < 0 && streams.out_path.empty()) outcome.out = contents(child.out_path);
  outcome.err = contents(child.err_path);
  return outcome;
}

}  // namespace mla::cli
