// stdin: whole, or by lines of which none may take all the memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "mla/core.h"

namespace mla::cli {

inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;

// All of stdin, at most the longest line; kNotReadable, also for an empty one.
Result<std::string> read_stdin();

// Answers every line of stdin with one line on stdout, at once and in order, and returns the exit
// code. answer() gets the line and its number from 1, or, for one beyond the longest line, refuse()
// the number and why.
struct LineService {
  std::function<std::string(const std::string& line, std::int64_t number)> answer;
  std::function<std::string(std::int64_t number, const std::string& why)> refuse;
};
int answer_lines(const LineService& service);

}  // namespace mla::cli
