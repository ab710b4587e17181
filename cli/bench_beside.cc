// One line for each point and number of threads.
#include "bench_beside.h"

#include "bench/beside_kernel.h"
#include "command.h"
#include "console.h"
#include "json.h"
#include "mla/platform.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

constexpr std::int64_t kRank = 512;

struct Point {
  bench::RequestLengths request;
  std::vector<bench::Beside> figures;
};

Json json_of(const bench::Speed& speed) {
  return {{"share_median", speed.median_share},
          {"share_best", speed.best_share},
          {"samples", speed.samples}};
}

Json json_of(const std::vector<Point>& points, const RunChoice& choice, const BesideFlags& flags) {
  Json list = Json::array();
  for (const Point& point : points) {
    for (const bench::Beside& beside : point.figures) {
      list.push_back({{"new_tokens", point.request.new_tokens},
                      {"context", point.request.context},
                      {"threads", beside.threads},
                      {"form", prefill::name(beside.form)},
                      {"kernel", json_of(beside.kernel)},
                      {"operator", json_of(beside.op)},
                      {"operator_over_kernel", beside.op_over_kernel},
                      {"kernel_scaling", beside.kernel_scaling},
                      {"operator_scaling", beside.op_scaling},
                      {"scratch_bytes", beside.scratch_bytes}});
    }
  }
  return {{"machine", {{"cpu", this_machine().cpu_name}}},
          {"row", choice.row.full_name()},
          {"num_heads", flags.heads},
          {"points", list}};
}

std::string scaling_text(double scaling) {
  return scaling > 0.0 ? number_text(scaling) + " x" : "-";
}

void print_table(const std::vector<Point>& points, const RunChoice& choice) {
  const Style style = stdout_style();
  Table table({{"new", Align::kRight},
               {"context", Align::kRight},
               {"form"},
               {"threads", Align::kRight},
               {"kernel", Align::kRight},
               {"operator", Align::kRight},
               {"operator/kernel", Align::kRight},
               {"kernel scales", Align::kRight},
               {"operator scales", Align::kRight},
               {"scratch", Align::kRight}});
  for (const Point& point : points) {
    for (const bench::Beside& beside : point.figures) {
      table.add({count_text(point.request.new_tokens), count_text(point.request.context),
                 std::string(prefill::name(beside.form)), std::to_string(beside.threads),
                 percent_text(beside.kernel.median_share), percent_text(beside.op.median_share),
                 number_text(beside.op_over_kernel), scaling_text(beside.kernel_scaling),
                 scaling_text(beside.op_scaling), bytes_text(beside.scratch_bytes)});
    }
  }
  print(style(Tone::kStrong, choice.row.full_name()) + "\n" + table.text(style, 0) + "\n" +
        style(Tone::kDim,
              "Shares of the row's peak probe, medians: the kernel attending to K and V of every "
              "head in memory, and the\noperator counted over projection and attention, in turns. "
              "Scales: wall time over that of the first number of\nthreads, in the same turns.") +
        "\n");
}

}  // namespace

int bench_beside_kernel(const BesideFlags& flags, const RunChoice& choice, DType dtype) {
  std::vector<Point> points;
  Progress progress("", static_cast<std::int64_t>(flags.fresh.size() * flags.context.size()));
  for (const std::int64_t context : flags.context) {
    for (const std::int64_t fresh : flags.fresh) {
      progress.label(count_text(fresh) + " new over " + count_text(context));
      bench::BesideConfig config;
      config.implementation = choice.row.implementation;
      config.shape = {"prefill", flags.heads,        {128, 64, 128},
                      dtype,     {{fresh, context}}, 0.0721687824F};  // 192^-0.5
      config.kv_lora_rank = kRank;
      config.threads = flags.threads;
      config.samples = flags.samples;
      Result<std::vector<bench::Beside>> figures = bench::measure_beside_kernel(config);
      if (!figures) return fail(figures.error());
      points.push_back({{fresh, context}, std::move(*figures)});
      progress.advance();
    }
  }
  if (flags.json) {
    print(pretty(json_of(points, choice, flags)));
  } else {
    print_table(points, choice);
  }
  return kOk;
}

}  // namespace mla::cli
