// stdout through stdio with its errors kept, stderr by lines, a progress bar that leaves no trace.
#include "console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "command.h"

namespace mla::cli {
namespace {

int g_output_error = 0;  // errno of the first write that failed

const char* escape_of(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return "\033[1m";
    case Tone::kDim:
      return "\033[2m";
    case Tone::kGood:
      return "\033[32m";
    case Tone::kWarn:
      return "\033[33m";
    case Tone::kBad:
      return "\033[31m";
  }
  return "";
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

void note_output_error() {
  if (g_output_error == 0) g_output_error = errno != 0 ? errno : EIO;
}

// What a person typed may come back in a message; it must not steer their terminal.
std::string one_line(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      line += c;
    }
  }
  return line;
}

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnknownBackend:
    case ErrorCode::kExplicitInvalid:
    case ErrorCode::kNoneValid:
    case ErrorCode::kUnregistered:
    case ErrorCode::kUnsupported:
    case ErrorCode::kBackendFailed:
      return kFailed;
    default:
      return kBadInput;
  }
}

}  // namespace

std::string Style::operator()(Tone tone, std::string_view text) const {
  if (!colour_ || tone == Tone::kPlain || text.empty()) return std::string(text);
  return escape_of(tone) + std::string(text) + "\033[0m";
}

Style stdout_style() {
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::strcmp(term, "dumb") == 0;
  return Style(isatty(STDOUT_FILENO) == 1 && !is_set("NO_COLOR") && !dumb);
}

int stdout_columns() {
  if (isatty(STDOUT_FILENO) != 1) return 0;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) note_output_error();
}

bool flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) note_output_error();
  return g_output_error == 0;
}

int finish(int code) {
  if (flush_output()) return code;
  return fail(kBadInput, std::string("stdout: ") + std::strerror(g_output_error));
}

void complain(std::string_view message) {
  const std::string line = "mla: " + one_line(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int fail(int code, std::string_view message) {
  complain(message);
  return code;
}

int fail(const Error& error) { return fail(exit_code_of(error.code), error.message); }

Progress::Progress(std::string label, std::int64_t steps)
    : visible_(isatty(STDERR_FILENO) == 1),
      label_(std::move(label)),
      steps_(std::max<std::int64_t>(steps, 1)) {
  draw();
}

Progress::~Progress() { hide(); }

void Progress::advance(std::int64_t steps) {
  done_ = std::min(done_ + steps, steps_);
  draw();
}

void Progress::label(std::string text) {
  label_ = std::move(text);
  draw();
}

void Progress::draw() const {
  if (!visible_) return;
  constexpr std::int64_t kWidth = 24;
  const std::int64_t full = done_ * kWidth / steps_;
  std::string bar;
  for (std::int64_t i = 0; i < kWidth; ++i) bar += i < full ? '#' : '.';
  std::fprintf(stderr, "\r\033[K[%s] %3d %%  %s", bar.c_str(),
               static_cast<int>(done_ * 100 / steps_), label_.c_str());
  std::fflush(stderr);
}

void Progress::hide() const {
  if (visible_) std::fputs("\r\033[K", stderr);
}

}  // namespace mla::cli
