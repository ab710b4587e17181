// The default executors: the process's OpenMP team (or plain threads without OpenMP), and none.
#include <algorithm>

#include "mla/core.h"

#if defined(MLA_HAVE_OPENMP)
#include <omp.h>
#else
#include <thread>
#include <vector>
#endif

namespace mla {
namespace {

class SerialExecutor final : public Executor {
 public:
  int concurrency() const override { return 1; }
  void run(int workers, Body body, void* context) override {
    for (int worker = 0; worker < workers; ++worker) body(context, worker);
  }
};

#if defined(MLA_HAVE_OPENMP)

// omp_get_max_threads, not the number of cores: a host that limited its team meant it.
class DefaultExecutor final : public Executor {
 public:
  int concurrency() const override {
    return omp_in_parallel() != 0 ? 1 : std::max(1, omp_get_max_threads());
  }
  void run(int workers, Body body, void* context) override {
    if (workers == 1) return body(context, 0);
#pragma omp parallel for schedule(static, 1) num_threads(workers)
    for (int worker = 0; worker < workers; ++worker) body(context, worker);
  }
};

#else

class DefaultExecutor final : public Executor {
 public:
  int concurrency() const override {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  void run(int workers, Body body, void* context) override {
    std::vector<std::thread> threads;
    int started = 1;
    try {
      for (; started < workers; ++started) threads.emplace_back(body, context, started);
    } catch (...) {  // the machine has no more threads: the rest runs here
    }
    if (workers > 0) body(context, 0);
    for (int worker = started; worker < workers; ++worker) body(context, worker);
    for (std::thread& thread : threads) thread.join();
  }
};

#endif

}  // namespace

Executor& default_executor() {
  static DefaultExecutor executor;
  return executor;
}

Executor& serial_executor() {
  static SerialExecutor executor;
  return executor;
}

}  // namespace mla
