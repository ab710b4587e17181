// Reads by blocks through stdio; a line beyond the limit is skipped to its end without being kept.
#include "input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "command.h"
#include "console.h"

namespace mla::cli {
namespace {

enum class LineState : std::uint8_t { kLine, kTooLong, kEnd, kFailed };

LineState read_line(std::string& line) {
  line.clear();
  bool too_long = false;
  errno = 0;
  for (int c; (c = std::getc(stdin)) != EOF;) {
    if (c == '\n') return too_long ? LineState::kTooLong : LineState::kLine;
    too_long = too_long || line.size() == kLongestLine;
    if (!too_long) line += static_cast<char>(c);
  }
  if (std::ferror(stdin) != 0) return LineState::kFailed;
  if (too_long) return LineState::kTooLong;
  return line.empty() ? LineState::kEnd : LineState::kLine;
}

std::string stdin_failure() {
  return std::string("stdin: ") + std::strerror(errno != 0 ? errno : EIO);
}

}  // namespace

Result<std::string> read_stdin() {
  std::string text;
  errno = 0;
  char block[1 << 16];
  for (std::size_t got; (got = std::fread(block, 1, sizeof block, stdin)) > 0;) {
    text.append(block, got);
    if (text.size() > kLongestLine) {
      return Error{ErrorCode::kNotReadable, "", "stdin: longer than 16 MiB"};
    }
  }
  if (std::ferror(stdin) != 0) return Error{ErrorCode::kNotReadable, "", stdin_failure()};
  if (text.empty()) return Error{ErrorCode::kNotReadable, "", "stdin: is empty"};
  return text;
}

int answer_lines(const LineService& service) {
  std::string line;
  std::int64_t number = 0;
  while (true) {
    const LineState state = read_line(line);
    if (state == LineState::kFailed) return fail(kBadInput, stdin_failure());
    if (state == LineState::kEnd) break;
    ++number;
    print((state == LineState::kTooLong ? service.refuse(number, "the line is longer than 16 MiB")
                                        : service.answer(line, number)) +
          "\n");
    if (!flush_output()) return kBadInput;  // finish() says why
  }
  if (number == 0) complain("stdin: is empty, nothing to answer");
  return kOk;
}

}  // namespace mla::cli
