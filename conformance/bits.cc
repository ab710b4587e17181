// The same bits: for any number of threads, any executor, on every run, alone and in a batch.
#include <thread>
#include <vector>

#include "properties.h"

namespace mla::conformance {
namespace {

constexpr auto kEveryRow = [](std::int64_t, std::int64_t) { return true; };

BatchSpec uneven(Trial& trial, DType dtype) {
  BatchSpec spec = trial.model_spec(dtype);
  spec.heads = 3;
  spec.q_lengths = {260, 1, 70, 0, 33};
  spec.k_lengths = {300, 190, 70, 5, 20};
  return spec;
}

// Workers one after the other, the last one first.
class BackwardExecutor final : public Executor {
 public:
  int concurrency() const override { return 5; }
  void run(int workers, Body body, void* context) override {
    for (int worker = workers - 1; worker >= 0; --worker) body(context, worker);
  }
};

class ThreadExecutor final : public Executor {
 public:
  int concurrency() const override { return 3; }
  void run(int workers, Body body, void* context) override {
    std::vector<std::thread> threads;
    for (int worker = 1; worker < workers; ++worker) threads.emplace_back(body, context, worker);
    if (workers > 0) body(context, 0);
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace

void check_threads(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    const Batch batch(uneven(trial, dtype));
    const auto one = trial.run(batch, {nullptr, 1});
    if (!one) return;
    trial.compare(batch, *one);
    for (int threads : {2, 3, 7}) {
      const auto several = trial.run(batch, {nullptr, threads});
      if (!several) return;
      trial.same_bits(batch, *one, *several, std::to_string(threads) + " threads against 1",
                      kEveryRow);
    }
  }
}

void check_executors(Trial& trial) {
  BackwardExecutor backward;
  ThreadExecutor threads;
  const struct {
    const char* name;
    Executor* executor;
  } executors[] = {{"the serial executor", &serial_executor()},
                   {"workers in reverse order", &backward},
                   {"threads of the caller", &threads}};
  for (DType dtype : trial.dtypes()) {
    const Batch batch(uneven(trial, dtype));
    const auto expected = trial.run(batch);
    if (!expected) return;
    for (const auto& [name, executor] : executors) {
      const auto run = trial.run(batch, {executor, 0});
      if (!run) return;
      trial.same_bits(batch, *expected, *run, std::string(name) + " against the default",
                      kEveryRow);
    }
  }
}

void check_repeat(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    const Batch batch(uneven(trial, dtype));
    const auto first = trial.run(batch);
    if (!first) return;
    for (int again = 0; again < 3; ++again) {
      const auto run = trial.run(batch);
      if (!run) return;
      trial.same_bits(batch, *first, *run, "the same call again", kEveryRow);
    }
  }
}

void check_batch_invariance(Trial& trial) {
  for (DType dtype : trial.dtypes()) {
    for (Layout layout : {Layout::kTokenMajor, Layout::kKvProjection, Layout::kDense}) {
      BatchSpec spec = uneven(trial, dtype);
      spec.layout = layout;
      const Batch batch(spec);
      const auto together = trial.run(batch);
      if (!together) return;
      for (std::int64_t r = 0; r < batch.requests(); ++r) {
        const auto alone = trial.run_alone(batch, r);
        if (!alone) return;
        trial.same_request(batch, *together, *alone, r);
      }
    }
  }
}

}  // namespace mla::conformance
