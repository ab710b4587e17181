// Each repetition is one iteration with manual time; Google Benchmark's own report is not printed.
#include <benchmark/benchmark.h>

#include <optional>

#include "repeat.h"

namespace mla::bench {
namespace {

class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

Status repeat(const std::string& name, int count, const std::function<Result<double>()>& body) {
  std::optional<Error> error;
  const auto run = [&](benchmark::State& state) {
    while (state.KeepRunning()) {
      const Result<double> seconds = body();
      if (!seconds) {
        if (!error) error = seconds.error();
        state.SkipWithError(seconds.error().message.c_str());
        return;
      }
      state.SetIterationTime(*seconds);
    }
  };
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(count);
  Silent silent;
  benchmark::RunSpecifiedBenchmarks(&silent, nullptr, ".");
  benchmark::ClearRegisteredBenchmarks();
  return error ? Status(*error) : Status();
}

}  // namespace mla::bench
