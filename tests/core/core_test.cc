// Element types, errors and log lines.
#include "mla/core.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

namespace mla {
namespace {

TEST(DType, EveryNameParsesToItself) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3}) {
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(parse_dtype("torch." + std::string(name(dtype))), dtype);
  }
  EXPECT_EQ(parse_dtype("torch.half"), DType::kFloat16);
  EXPECT_FALSE(parse_dtype("int3").has_value());
  EXPECT_FALSE(parse_dtype("torch.").has_value());
  EXPECT_FALSE(parse_dtype("").has_value());
}

TEST(ErrorCode, NamesAreDistinct) {
  std::vector<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kBackendFailed); ++code) {
    const std::string_view text = name(static_cast<ErrorCode>(code));
    EXPECT_NE(text, "invalid");
    for (std::string_view other : names) EXPECT_NE(text, other);
    names.push_back(text);
  }
}

TEST(Log, SaysALineOnceAndOnlyToASink) {
  std::vector<std::string> lines;
  log_once(LogLevel::kInfo, "core_test: no sink yet");
  set_log_sink([&](LogLevel, std::string_view text) { lines.emplace_back(text); });
  log_once(LogLevel::kInfo, "core_test: no sink yet");
  log_once(LogLevel::kInfo, "core_test: no sink yet");
  log_once(LogLevel::kDebug, "core_test: no sink yet");
  set_log_sink({});
  log_once(LogLevel::kInfo, "core_test: sink gone");
  EXPECT_EQ(lines.size(), 2u);
}

TEST(Executor, EveryWorkerRunsOnce) {
  for (Executor* executor : {&default_executor(), &serial_executor()}) {
    EXPECT_GE(executor->concurrency(), 1);
    for (int workers : {0, 1, 2, 7, 33}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(workers));
      executor->for_each_worker(workers, [&](int worker) { ++calls[worker]; });
      for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
    }
  }
}

}  // namespace
}  // namespace mla
