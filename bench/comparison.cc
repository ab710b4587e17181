// A speed is a share of the probes of all its threads together, times their number.
#include "comparison.h"

#include <algorithm>

namespace mla::bench {
namespace {

struct Pair {
  const char* shape;
  const char* over;
};
constexpr Pair kPairs[] = {{"uneven-8x", "even-8x"}, {"prompt-2048-h128", "prompt-2048"}};

const TimedFigure* find(const std::vector<TimedFigure>& figures, const TimedFigure& like,
                        const std::string& shape, int threads) {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const TimedFigure& figure) {
    return figure.row == like.row && figure.shape == shape && figure.threads == threads;
  });
  return found == figures.end() ? nullptr : &*found;
}

double speed_of(const TimedFigure& figure) {
  const Speed& speed = figure.speed;
  return speed.median_share > 0.0 ? speed.median_share * figure.threads : speed.median_gflops;
}

std::string threads_text(int threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

}  // namespace

std::vector<SpeedRatio> compare(const std::vector<TimedFigure>& figures) {
  std::vector<SpeedRatio> comparisons;
  const auto add = [&](const TimedFigure& figure, const TimedFigure* over, std::string what) {
    if (over == nullptr || !(speed_of(figure) > 0.0) || !(speed_of(*over) > 0.0)) return;
    comparisons.push_back({figure.row, std::move(what), speed_of(figure) / speed_of(*over)});
  };
  for (const TimedFigure& figure : figures) {
    if (figure.over_one_thread > 0.0) {
      comparisons.push_back({figure.row,
                             figure.shape + ", " + threads_text(figure.threads) + " over 1",
                             figure.over_one_thread});
    }
    for (const Pair& pair : kPairs) {
      if (figure.shape != pair.shape) continue;
      add(figure, find(figures, figure, pair.over, figure.threads),
          figure.shape + " over " + pair.over + ", " + threads_text(figure.threads));
    }
  }
  return comparisons;
}

}  // namespace mla::bench
