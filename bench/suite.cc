// One untimed run whose answer is verified, then as many samples as the time allows.
#include "suite.h"

#include <algorithm>

#include "ragged_case.h"
#include "repeat.h"

namespace mla::bench {
namespace {

constexpr std::uint64_t kSeed = 20240507;
constexpr double kVerifyMultiplyAdds = 2e8;
constexpr int kSamples = 20;     // of quick runs
constexpr int kLongSamples = 7;  // of runs that take longer than kLongSeconds
constexpr double kLongSeconds = 0.5;
constexpr int kFewestSamples = 3;

int samples_for(const FigureConfig& config, double seconds_of_one) {
  if (config.min_samples > 0) return config.min_samples;
  const int wanted = seconds_of_one > kLongSeconds ? kLongSamples : kSamples;
  const double affordable = config.max_seconds / std::max(seconds_of_one, 1e-6);
  return std::clamp(static_cast<int>(std::min(affordable, 1e6)), kFewestSamples, wanted);
}

// One number of threads: its figure and what it is made of.
struct Lane {
  Lane(const FigureConfig& config, int threads)
      : sampler(*config.implementation, config.shape.dtype, threads) {}
  Sampler sampler;
  std::vector<Sample> samples;
};

// Turn by turn, every lane once.
Status sample(const FigureConfig& config, std::vector<Lane>& lanes, int count, RaggedCase& data) {
  return repeat(config.shape.name, count, [&]() -> Result<double> {
    double seconds = 0.0;
    for (Lane& lane : lanes) {
      const Result<Sample> one = lane.sampler.take(
          [&] { return data.run(*config.implementation, lane.sampler.options()); });
      if (!one) return one.error();
      lane.samples.push_back(*one);
      seconds += one->seconds;
    }
    return seconds;
  });
}

// Why there is nothing to time in the time there is; empty where there is.
std::string too_long(const FigureConfig& config, const Lane& lane) {
  const double peak = lane.sampler.probe();
  const double at_best = peak > 0.0 ? flops(config.shape) / peak * 1e-9 : 0.0;
  if (config.min_samples > 0 || at_best <= config.max_seconds) return "";
  return "one run would take longer than --max-seconds even at the row's peak";
}

}  // namespace

Result<std::vector<Figure>> measure(const FigureConfig& config) {
  std::vector<Figure> figures(config.threads.size());
  std::vector<Lane> lanes;
  for (const int threads : config.threads) lanes.emplace_back(config, threads);
  if (lanes.empty()) return figures;
  const auto all = [&](auto set) {
    for (std::size_t i = 0; i < figures.size(); ++i) set(figures[i], lanes[i]);
  };
  const std::string why_not = too_long(config, lanes.front());
  all([&](Figure& figure, const Lane& lane) {
    figure.clock = lane.sampler.clock_name();
    figure.skipped = why_not;
  });
  if (!why_not.empty()) return figures;

  Result<RaggedCase> data = RaggedCase::make(config.shape, kSeed);
  if (!data) return data.error();
  double longest = 0.0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Result<Sample> first = lanes[i].sampler.take(
        [&] { return data->run(*config.implementation, lanes[i].sampler.options()); });
    if (!first) return first.error();
    longest = std::max(longest, first->seconds);
    const Result<Accuracy> accuracy = data->verify(kVerifyMultiplyAdds, {});
    if (!accuracy) return accuracy.error();
    figures[i].accuracy = *accuracy;
    if (!accuracy->passed()) figures[i].skipped = "the answer is outside the tolerance";
  }
  if (std::any_of(figures.begin(), figures.end(),
                  [](const Figure& figure) { return !figure.skipped.empty(); })) {
    return figures;
  }
  const Status sampled = sample(config, lanes, samples_for(config, longest), *data);
  if (!sampled.ok()) return sampled.error();
  const auto one = std::find(config.threads.begin(), config.threads.end(), 1);
  all([&](Figure& figure, const Lane& lane) {
    figure.speed = speed_of(lane.samples, flops(config.shape));
    if (one == config.threads.end() || lane.sampler.thread_cpu_time()) return;
    figure.over_one_thread = scaling(
        lane.samples, lanes[static_cast<std::size_t>(one - config.threads.begin())].samples);
  });
  return figures;
}

}  // namespace mla::bench
