// Runs the mla program as a user would: arguments and stdin in, exit code, stdout and stderr out.
#pragma once

#include <string>
#include <vector>

namespace mla::cli {

struct Outcome {
  int code = -1;  // 128 + the signal where one ended it
  std::string out;
  std::string err;
};

struct Streams {
  std::string in;
  bool terminal = false;                 // stdout is a terminal
  bool closed_pipe = false;              // stdout is a pipe that nobody reads
  std::string out_path;                  // stdout is this file instead
  std::vector<std::string> environment;  // "NO_COLOR=1", added to this process's
};

Outcome mla(const std::vector<std::string>& arguments, const Streams& streams = {});

// A file with this content, gone at exit.
std::string temporary_file(const std::string& content);

// How many lines a text has, and whether it ends with a newline.
int lines_in(const std::string& text);

}  // namespace mla::cli
