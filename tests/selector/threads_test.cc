// Registry and cache under threads: readers select while a writer adds, overrides and clears. Every
// answer must be one that some state of the registry gives. Meant for ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "mla/selector.h"
#include "registry/rows.h"

namespace mla {
namespace {

constexpr int kReaders = 4;
constexpr int kChanges = 300;

class Readers {
 public:
  template <class Body>
  explicit Readers(Body body) {
    for (int i = 0; i < kReaders; ++i) {
      threads_.emplace_back([this, body, i] {
        while (!stop_.load(std::memory_order_relaxed)) {
          body(i);
          ++rounds_;
        }
      });
    }
  }
  // Waits until every reader has had turns, then ends them.
  void finish() {
    while (rounds_.load() < 4 * kReaders) std::this_thread::yield();
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> rounds_{0};
  std::vector<std::thread> threads_;
};

TEST(Threads, SelectionsWhileRowsChange) {
  const auto registry = make_builtin_registry();
  std::atomic<int> wrong{0};
  Readers readers([&](int reader) {
    const Problem problem{DType::kBFloat16, {128, 64, 128}, reader + 1, {}};
    const auto selection = select(problem, any_cpu(), {}, *registry);
    const std::string name = selection->full_name();
    if (name != "CPU:portable" && name != "CPU:mine") ++wrong;
    for (const Row& row : registry->rows()) wrong += row.backend.empty();
    wrong += registry->names().size() < 8;
    wrong += !registry->find("FLASH_ATTN").ok();
  });
  for (int i = 0; i < kChanges; ++i) {
    EXPECT_TRUE(registry->add(cpu_row("ADDED" + std::to_string(i), "")).ok());
    EXPECT_TRUE(registry->override_backend("CPU", cpu_row("CPU", "mine")).ok());
    EXPECT_TRUE(registry->clear_override("CPU").ok());
  }
  readers.finish();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(
      select({DType::kBFloat16, {128, 64, 128}, 1, {}}, any_cpu(), {}, *registry)->full_name(),
      "CPU:portable");
}

TEST(Threads, AnOverrideIsSeenAtOnceByTheThreadThatMadeIt) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kReaders; ++i) {
    threads.emplace_back([&wrong] {
      const auto registry = make_builtin_registry();
      const Problem problem{DType::kBFloat16, {128, 64, 128}, {}, {}};
      for (int j = 0; j < kChanges; ++j) {
        const std::string variant = "v" + std::to_string(j);
        if (!registry->override_backend("CPU", cpu_row("CPU", variant)).ok()) ++wrong;
        if (select(problem, any_cpu(), {}, *registry)->variant != variant) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Threads, TextFaceAndLog) {
  std::atomic<int> lines{0};
  set_log_sink([&](LogLevel, std::string_view) { ++lines; });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kReaders; ++i) {
    threads.emplace_back([&wrong] {
      for (int j = 0; j < 50; ++j) {
        const std::string dims = "[" + std::to_string(j + 1) + ", 64, 128]";
        const auto request =
            parse_request(R"({"platform": "cpu", "cpu": {"isa": ["neon"]}, "dims": )" + dims + "}");
        if (!request.ok()) {
          ++wrong;
          continue;
        }
        report(*select(request->problem, request->platform, request->policy));
        if (select_json(R"({"dims": [1], "x": 1})").empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  set_log_sink({});
  EXPECT_EQ(wrong.load(), 0);
  // "Using CPU:neon" once, the refusals once a problem, whichever thread came first.
  EXPECT_EQ(lines.load(), 1 + 50);
}

}  // namespace
}  // namespace mla
