// Both jobs have random inputs from a fixed seed.
#include "run_job.h"

#include <memory>

#include "bench/operator_case.h"
#include "bench/ragged_case.h"

namespace mla::cli {
namespace {

constexpr std::uint64_t kSeed = 20240507;    // the day of arXiv:2405.04434
constexpr std::int64_t kChunkTokens = 4096;  // of context attended at once
constexpr double kVerifyMultiplyAdds = 4e8;  // well under a second of the reference

std::string forms_text(const prefill::Plan& plan) {
  std::int64_t expanded = 0;
  std::int64_t absorbed = 0;
  for (const prefill::RequestPlan& request : plan.requests) {
    if (request.new_tokens == 0) continue;
    (request.form == prefill::Form::kAbsorbed ? absorbed : expanded) += 1;
  }
  return std::to_string(expanded) + " expanded, " + std::to_string(absorbed) +
         " absorbed; scratch " + bytes_text(plan.scratch_bytes);
}

Result<RunJob> operator_job(const RunReport& report, const attention::RunOptions& options) {
  Result<bench::OperatorCase> made = bench::OperatorCase::make(
      report.shape, report.config.kv_lora_rank, report.choice.row.implementation, kSeed);
  if (!made) return made.error();
  const auto data = std::make_shared<bench::OperatorCase>(std::move(*made));
  const Status planned = data->plan(options);
  if (!planned.ok()) return planned.error();
  RunJob job;
  job.method = "the prefill operator over a paged latent cache, " + forms_text(data->plan());
  job.plan_json = data->plan().to_json();
  job.flops = data->flops();
  job.run = [data] { return data->run(); };
  job.verify = [data] { return data->verify(); };
  return job;
}

Result<RunJob> chunked_job(const RunReport& report, const attention::RunOptions& options) {
  Result<bench::RaggedCase> made = bench::RaggedCase::make(report.shape, kSeed);
  if (!made) return made.error();
  const auto data = std::make_shared<bench::RaggedCase>(std::move(*made));
  const auto row = report.choice.row.implementation;
  RunJob job;
  job.method = "attention over new tokens and chunks of context, merged by log-sum-exp";
  job.flops = bench::flops(report.shape);
  job.run = [data, row, options] { return data->run_in_chunks(*row, options, kChunkTokens); };
  job.verify = [data, options] { return data->verify(kVerifyMultiplyAdds, options); };
  return job;
}

bool has_kernels(const RunReport& report) {
  return report.choice.row.implementation->kernels() != nullptr;
}

}  // namespace

double job_bytes(const RunReport& report) {
  return has_kernels(report)
             ? bench::OperatorCase::bytes_needed(report.shape, report.config.kv_lora_rank)
             : bench::RaggedCase::bytes_needed(report.shape);
}

Result<RunJob> make_job(const RunReport& report, const attention::RunOptions& options) {
  return has_kernels(report) ? operator_job(report, options) : chunked_job(report, options);
}

}  // namespace mla::cli
