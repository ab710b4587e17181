// `mla run`, the main job: chooses a row for this machine, runs a batch on it, verifies a sample of
// rows against the double-precision reference, and measures the speed beside the row's peak.
#include <algorithm>
#include <cmath>

#include "bench/sampling.h"
#include "command.h"
#include "console.h"
#include "memory.h"
#include "mla/platform.h"
#include "models.h"
#include "requests.h"
#include "run_choice.h"
#include "run_job.h"
#include "run_report.h"

namespace mla::cli {
namespace {

constexpr double kSecondsOfSamples = 1.5;  // of timed runs, all together
constexpr std::size_t kMostSamples = 9;
constexpr std::int64_t kMostThreads = 1024;

struct Flags {
  std::string model = "deepseek-v2-lite";
  std::string requests = "512,17,1,1000+2048";
  std::string dtype;
  std::string backend;
  std::string platform;
  std::int64_t threads = 0;
  std::int64_t heads = 0;
  bool json = false;
};

Error bad_flag(const std::string& flag, const std::string& message) {
  return {ErrorCode::kInvalidArgument, flag, "--" + flag + ": " + message};
}

Result<RunReport> read_flags(const Flags& flags) {
  RunReport report;
  const Result<ModelConfig> config = model_from(flags.model, "--model");
  if (!config) return config.error();
  report.model = flags.model;
  report.source = model_source(flags.model);
  report.config = *config;
  Result<std::vector<RequestLengths>> requests = parse_requests(flags.requests);
  if (!requests) return requests.error();
  const std::optional<DType> dtype = flags.dtype.empty() ? config->dtype : parse_dtype(flags.dtype);
  if (!dtype) return bad_flag("dtype", "got '" + flags.dtype + "', expected bf16, fp16 or fp32");
  if (flags.heads > config->num_heads) {
    return bad_flag("heads", "got " + std::to_string(flags.heads) + ", the model has 1 to " +
                                 std::to_string(config->num_heads));
  }
  report.threads =
      flags.threads > 0 ? static_cast<int>(flags.threads) : this_machine().usable_threads;
  report.shape.name = flags.requests;
  report.shape.num_heads = flags.heads > 0 ? flags.heads : config->num_heads;
  report.shape.dims = config->dims;
  report.shape.dtype = *dtype;
  report.shape.requests = std::move(*requests);
  report.shape.scale = static_cast<float>(config->softmax_scale);
  return report;
}

Status check_memory(const RunReport& report) {
  const double needed = job_bytes(report);
  const std::int64_t available = available_memory();
  if (available == 0 || needed <= 0.9 * static_cast<double>(available)) return {};
  const auto most = static_cast<double>(std::int64_t{1} << 62);
  return bad_flag("requests", "the batch needs about " +
                                  bytes_text(static_cast<std::int64_t>(std::min(needed, most))) +
                                  " of memory, " + bytes_text(available) +
                                  " are available; shorten it or use fewer --heads");
}

Status measure(RunReport& report) {
  const attention::Implementation& row = *report.choice.row.implementation;
  bench::Sampler sampler(row, report.shape.dtype, report.threads);
  report.clock = sampler.clock_name();
  Progress progress("preparing", static_cast<std::int64_t>(kMostSamples) + 1);
  Result<RunJob> job = make_job(report, sampler.options());
  if (!job) return job.error();
  report.method = job->method;
  report.plan_json = job->plan_json;
  report.flops = job->flops;
  progress.label("attending");
  std::vector<bench::Sample> samples;
  double spent = 0.0;
  while (samples.size() < kMostSamples && spent < kSecondsOfSamples) {
    Result<bench::Sample> sample = sampler.take(job->run);
    if (!sample) return sample.error();
    spent += sample->seconds;
    samples.push_back(*sample);
    progress.advance();
  }
  // The first run also touches the memory for the first time.
  if (samples.size() > 2) samples.erase(samples.begin());
  report.speed = bench::speed_of(samples, report.flops);
  progress.label("verifying");
  const Result<bench::Accuracy> accuracy = job->verify();
  if (!accuracy) return accuracy.error();
  report.accuracy = *accuracy;
  return {};
}

int run(const Flags& flags) {
  Result<RunReport> report = read_flags(flags);
  if (!report) return fail(report.error());
  Problem problem = report->config.problem();
  problem.dtype = report->shape.dtype;
  Result<RunChoice> choice = choose_for_run(problem, flags.backend, flags.platform);
  if (!choice) return fail(choice.error());
  report->choice = std::move(*choice);
  const Status fits = check_memory(*report);
  if (!fits.ok()) return fail(fits.error());
  const bool work = bench::new_tokens(report->shape) > 0;
  if (!work && !flags.json) {
    print("Nothing to compute: no request of the batch has a new token.\n");
    return kOk;
  }
  if (!flags.json) {
    print_head(*report);
    if (!flush_output()) return kBadInput;
  }
  const Status status = work ? measure(*report) : Status();
  if (!status.ok()) return fail(status.error());
  if (flags.json) {
    print(pretty(json_of(*report)));
  } else {
    print_result(*report);
  }
  if (report->passed()) return kOk;
  flush_output();
  return fail(kFailed, "run: " + report->choice.row.full_name() +
                           " is outside the tolerance: " + worst_text(report->accuracy));
}

}  // namespace

Action declare_run(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--model", flags->model, "A named model (see mla model) or a config.json")
      ->type_name("NAME|PATH")
      ->capture_default_str();
  app.add_option("--requests", flags->requests, "New tokens of each request, context after a +")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--dtype", flags->dtype, "bf16, fp16 or fp32; without it: the model's")
      ->type_name("DTYPE");
  app.add_option("--backend", flags->backend, "A backend, or one variant of it: CPU:avx2")
      ->type_name("NAME");
  app.add_option("--platform", flags->platform, "cpu runs on the CPU of a machine with a GPU")
      ->type_name("KIND");
  app.add_option("--threads", flags->threads, "Threads; without it: all that are usable")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostThreads));
  app.add_option("--heads", flags->heads, "Fewer heads than the model has, for a quicker run")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", flags->json, "One JSON object");
  app.footer(
      "Examples:\n"
      "  mla run\n"
      "  mla run --model deepseek-v3 --requests 2048 --heads 16\n"
      "  mla run --requests 512,17,1000+2048 --dtype fp32 --backend CPU:avx2 --threads 1\n"
      "  mla run --model path/to/config.json --json\n"
      "Exit code: 0 verified, 1 no valid backend or outside the tolerance, 2 bad usage or input.");
  return [flags] { return run(*flags); };
}

}  // namespace mla::cli
