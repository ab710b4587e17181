// Repeats a timed body. By Google Benchmark where the build found it (repeat_benchmark.cc), by a
// plain loop in builds without (repeat_plain.cc, cross builds).
#pragma once

#include <functional>
#include <string>

#include "mla/core.h"

namespace mla::bench {

// Runs body `count` times; it returns the seconds that it timed itself. The first error ends it.
Status repeat(const std::string& name, int count, const std::function<Result<double>()>& body);

}  // namespace mla::bench
