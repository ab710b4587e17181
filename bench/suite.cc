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

Result<std::vector<Sample>> sample(const FigureConfig& config, Sampler& sampler, int count,
                                   const std::function<Status()>& work) {
  std::vector<Sample> samples;
  const Status status = repeat(config.shape.name, count, [&]() -> Result<double> {
    const Result<Sample> one = sampler.take(work);
    if (!one) return one.error();
    samples.push_back(*one);
    return one->seconds;
  });
  if (!status.ok()) return status.error();
  return samples;
}

}  // namespace

Result<Figure> measure(const FigureConfig& config) {
  Figure figure;
  Sampler sampler(*config.implementation, config.shape.dtype, config.threads);
  figure.clock = sampler.clock_name();
  const double peak = sampler.probe();
  const double at_best = peak > 0.0 ? flops(config.shape) / peak * 1e-9 : 0.0;
  if (config.min_samples == 0 && at_best > config.max_seconds) {
    figure.skipped = "one run would take longer than --max-seconds even at the row's peak";
    return figure;
  }
  Result<RaggedCase> data = RaggedCase::make(config.shape, kSeed);
  if (!data) return data.error();
  const auto work = [&] { return data->run(*config.implementation, sampler.options()); };
  const Result<Sample> first = sampler.take(work);
  if (!first) return first.error();
  const Result<Accuracy> accuracy = data->verify(kVerifyMultiplyAdds, {});
  if (!accuracy) return accuracy.error();
  figure.accuracy = *accuracy;
  if (!accuracy->passed()) {
    figure.skipped = "the answer is outside the tolerance";
    return figure;
  }
  const Result<std::vector<Sample>> samples =
      sample(config, sampler, samples_for(config, first->seconds), work);
  if (!samples) return samples.error();
  figure.speed = speed_of(*samples, flops(config.shape));
  return figure;
}

}  // namespace mla::bench
