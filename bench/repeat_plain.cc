// The timing loop of a build without Google Benchmark (cross builds): the body, count times.
#include "repeat.h"

namespace mla::bench {

Status repeat(const std::string&, int count, const std::function<Result<double>()>& body) {
  for (int i = 0; i < count; ++i) {
    const Result<double> seconds = body();
    if (!seconds) return seconds.error();
  }
  return {};
}

}  // namespace mla::bench
