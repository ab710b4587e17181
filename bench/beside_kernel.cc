// Every number of threads has its turn in every round, the kernel before the operator.
#include "beside_kernel.h"

#include <algorithm>
#include <string>
#include <utility>

#include "operator_case.h"
#include "ragged_case.h"

namespace mla::bench {
namespace {

constexpr std::uint64_t kSeed = 20240507;
constexpr double kVerifyMultiplyAdds = 2e8;

struct Lane {
  Lane(const BesideConfig& config, int threads)
      : sampler(*config.implementation, config.shape.dtype, threads), threads(threads) {}
  Sampler sampler;
  int threads;
  std::vector<Sample> kernel;
  std::vector<Sample> op;
};

struct Cases {
  RaggedCase kernel;
  OperatorCase op;
};

Status add_turn(const BesideConfig& config, Cases* cases, Lane* lane) {
  const attention::RunOptions options = lane->sampler.options();
  const Result<Sample> kernel =
      lane->sampler.take([&] { return cases->kernel.run(*config.implementation, options); });
  if (!kernel) return kernel.error();
  if (Status s = cases->op.plan(options); !s) return s;
  const Result<Sample> op = lane->sampler.take([&] { return cases->op.run(); });
  if (!op) return op.error();
  lane->kernel.push_back(*kernel);
  lane->op.push_back(*op);
  return {};
}

// An untimed turn, so that memory is there, and both answers.
Status check(const BesideConfig& config, Cases* cases, Lane* lane) {
  if (Status s = add_turn(config, cases, lane); !s) return s;
  lane->kernel.clear();
  lane->op.clear();
  const Result<Accuracy> kernel = cases->kernel.verify(kVerifyMultiplyAdds, {});
  if (!kernel) return kernel.error();
  const Result<Accuracy> op = cases->op.verify();
  if (!op) return op.error();
  if (kernel->passed() && op->passed()) return {};
  return Error{ErrorCode::kBackendFailed, "",
               std::string("the answer of the ") + (kernel->passed() ? "operator" : "kernel") +
                   " is outside the tolerance"};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Beside figures_of(const Lane& lane, const Lane& first, const Shape& shape, const OperatorCase& op) {
  const auto share = [](const Sample& sample, double flops) {
    return flops / sample.seconds / sample.probe();
  };
  Beside beside;
  beside.threads = lane.threads;
  beside.kernel = speed_of(lane.kernel, flops(shape));
  beside.op = speed_of(lane.op, op.flops());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < lane.op.size(); ++i) {
    ratios.push_back(share(lane.op[i], op.flops()) / share(lane.kernel[i], flops(shape)));
  }
  beside.op_over_kernel = median(ratios);
  if (&lane != &first) {
    beside.kernel_scaling = scaling(lane.kernel, first.kernel);
    beside.op_scaling = scaling(lane.op, first.op);
  }
  beside.form = op.plan().requests.front().form;
  beside.scratch_bytes = op.plan().scratch_bytes;
  return beside;
}

}  // namespace

Result<std::vector<Beside>> measure_beside_kernel(const BesideConfig& config) {
  Result<RaggedCase> kernel = RaggedCase::make(config.shape, kSeed);
  if (!kernel) return kernel.error();
  Result<OperatorCase> op =
      OperatorCase::make(config.shape, config.kv_lora_rank, config.implementation, kSeed);
  if (!op) return op.error();
  Cases cases{std::move(*kernel), std::move(*op)};
  std::vector<Lane> lanes;
  for (const int threads : config.threads) lanes.emplace_back(config, threads);
  for (Lane& lane : lanes) {
    if (Status s = check(config, &cases, &lane); !s) return s.error();
  }
  for (int i = 0; i < std::max(1, config.samples); ++i) {
    for (Lane& lane : lanes) {
      if (Status s = add_turn(config, &cases, &lane); !s) return s.error();
    }
  }
  std::vector<Beside> figures;
  for (Lane& lane : lanes) {
    if (Status s = cases.op.plan(lane.sampler.options()); !s) return s.error();
    figures.push_back(figures_of(lane, lanes.front(), config.shape, cases.op));
  }
  return figures;
}

}  // namespace mla::bench
