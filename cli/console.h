// The terminal: where output, errors and progress go, and whether they may have colour.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mla/core.h"

namespace mla::cli {

enum class Tone : std::uint8_t { kPlain, kStrong, kDim, kGood, kWarn, kBad };

// Colours, or none: only on a terminal, and not where NO_COLOR is set (https://no-color.org).
class Style {
 public:
  explicit Style(bool colour) : colour_(colour) {}
  std::string operator()(Tone tone, std::string_view text) const;

 private:
  bool colour_;
};

Style stdout_style();
// Columns of the terminal on stdout; 0 where stdout is none, that is: do not wrap.
int stdout_columns();

// Writes to stdout, buffered. A failure is kept for finish().
void print(std::string_view text);
// Hands what was printed to the system now; false when it could not be written.
bool flush_output();
// To be returned by main: `code`, or kBadInput with a line on stderr when stdout failed (a closed
// pipe, a full disk).
int finish(int code);

// One line "mla: message" on stderr; control characters in the message are made visible.
void complain(std::string_view message);
// complain(), and the exit code that belongs to the error.
int fail(const Error& error);
int fail(int code, std::string_view message);

// A bar on stderr, only where stderr is a terminal; gone when the object is.
class Progress {
 public:
  Progress(std::string label, std::int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::int64_t steps = 1);
  void label(std::string text);
  // Until the next call, so that something else can be printed.
  void hide() const;

 private:
  void draw() const;

  bool visible_;
  std::string label_;
  std::int64_t steps_;
  std::int64_t done_ = 0;
};

}  // namespace mla::cli
