// What `mla run` found out, and how it is printed.
#pragma once

#include <string>

#include "bench/accuracy.h"
#include "bench/sampling.h"
#include "bench/shape.h"
#include "json.h"
#include "run_choice.h"
#include "units.h"

namespace mla::cli {

struct RunReport {
  std::string model;   // as asked for
  std::string source;  // where its numbers come from
  ModelConfig config;
  bench::Shape shape;
  int threads = 1;
  RunChoice choice;
  std::string method;     // "the prefill operator: ..."
  std::string plan_json;  // of the operator; empty where it was not used
  double flops = 0.0;     // of one run
  bench::Accuracy accuracy;
  bench::Speed speed;  // of no samples where there was nothing to compute
  std::string clock;

  bool passed() const { return accuracy.passed(); }
};

void print_head(const RunReport& report);    // machine, model, selection, batch
void print_result(const RunReport& report);  // verification, speed
Json json_of(const RunReport& report);
// "worst error 0.0012 where 0.011 is allowed, lse ..."
std::string worst_text(const bench::Accuracy& accuracy);

}  // namespace mla::cli
