// What `mla run` computes on a row: the prefill operator, or attention in chunks of context where
// a row has no kernels to build the operator from (a plug-in's).
#pragma once

#include <functional>
#include <string>

#include "bench/accuracy.h"
#include "mla/attention.h"
#include "run_report.h"

namespace mla::cli {

struct RunJob {
  std::string method;     // for people
  std::string plan_json;  // the operator's
  double flops = 0.0;     // of one run
  std::function<Status()> run;
  std::function<Result<bench::Accuracy>()> verify;  // the last run's result
};

// Bytes that a job will ask for, about.
double job_bytes(const RunReport& report);
Result<RunJob> make_job(const RunReport& report, const attention::RunOptions& options);

}  // namespace mla::cli
