// `mla bench prefill`: the operator's two exact forms, interleaved, over new tokens and context,
// and what the automatic choice loses against the better one.
#include <algorithm>

#include "bench/bandwidth.h"
#include "bench/operator_case.h"
#include "bench/sampling.h"
#include "bench_beside.h"
#include "command.h"
#include "console.h"
#include "json.h"
#include "mla/platform.h"
#include "page.h"
#include "run_choice.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

using bench::OperatorCase;
using prefill::Form;

constexpr std::uint64_t kSeed = 20240507;
constexpr std::int64_t kRank = 512;
constexpr std::size_t kMostSamples = 7;

struct Flags {
  std::string backend;
  std::string dtype = "bf16";
  std::vector<std::int64_t> fresh = {1, 16, 64, 128, 256, 1024};
  std::vector<std::int64_t> context = {0, 1024, 8192, 32768};
  std::int64_t heads = 16;
  double max_seconds = 2.0;
  bool kernel = false;
  std::vector<int> threads = {1};  // kernel
  int samples = 5;                 // kernel
  bool json = false;
  bool html = false;
};

struct Timed {
  bench::Speed speed;
  double seconds = 0.0;  // median
};

struct Point {
  bench::RequestLengths request;
  Timed expanded;
  Timed absorbed;
  Form chosen = Form::kAuto;
  double bandwidth = 0.0;         // GB/s, median
  double absorbed_bounded = 0.0;  // share of the lower of the two bounds, median
  bool memory_bound = false;      // absorbed: reading the latents once takes longer than computing

  double absorbed_over_expanded() const { return absorbed.seconds / expanded.seconds; }
  // How much longer the chosen form takes than the better one: 0 where it is the better one.
  double loss() const {
    const double taken = chosen == Form::kAbsorbed ? absorbed.seconds : expanded.seconds;
    return taken / std::min(absorbed.seconds, expanded.seconds) - 1.0;
  }
};

bench::Shape shape_of(const Flags& flags, DType dtype, const bench::RequestLengths& request) {
  const MlaDims dims{128, 64, 128};
  return {"prefill", flags.heads, dims, dtype, {request}, 0.0721687824F};  // 192^-0.5
}

struct Prepared {
  OperatorCase data;
  std::vector<bench::Sample> samples;
};

Result<Prepared> prepare(const bench::Shape& shape, const Row& row, Form form,
                         const attention::RunOptions& options) {
  Result<OperatorCase> data = OperatorCase::make(shape, kRank, row.implementation, kSeed, form);
  if (!data) return data.error();
  Status status = data->plan(options);
  if (status.ok()) status = data->run();
  if (!status.ok()) return status.error();
  const Result<bench::Accuracy> accuracy = data->verify();
  if (!accuracy) return accuracy.error();
  if (!accuracy->passed()) {
    return Error{ErrorCode::kBackendFailed, "",
                 "bench prefill: " + row.full_name() + ", " + std::string(name(form)) +
                     ", is outside the tolerance"};
  }
  return Prepared{std::move(*data), {}};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Timed timed(const Prepared& prepared) {
  std::vector<double> seconds;
  for (const bench::Sample& sample : prepared.samples) seconds.push_back(sample.seconds);
  return {bench::speed_of(prepared.samples, prepared.data.flops()), median(seconds)};
}

// No run is faster than its multiply-adds at the peak of the probes around it, nor than one reading
// of the latents at the bandwidth probed after it.
void set_bounds(const Prepared& absorbed, const std::vector<double>& bandwidths, Point* point) {
  std::vector<double> shares;
  int memory_bound = 0;
  for (std::size_t i = 0; i < absorbed.samples.size(); ++i) {
    const bench::Sample& sample = absorbed.samples[i];
    const double peak = sample.probe() * 1e9;
    const double compute = peak > 0.0 ? absorbed.data.flops() / peak : 0.0;
    const double read = absorbed.data.latent_bytes() / (bandwidths[i] * 1e9);
    shares.push_back(std::max(compute, read) / sample.seconds);
    memory_bound += read > compute ? 1 : -1;
  }
  point->bandwidth = median(bandwidths);
  point->absorbed_bounded = median(shares);
  point->memory_bound = memory_bound > 0;
}

Result<Point> measure(const Flags& flags, const Row& row, const bench::Shape& shape) {
  bench::Sampler sampler(*row.implementation, shape.dtype, 1);
  Point point;
  point.request = shape.requests.front();
  Result<OperatorCase> automatic = OperatorCase::make(shape, kRank, row.implementation, kSeed);
  if (!automatic) return automatic.error();
  const Status planned = automatic->plan(sampler.options());
  if (!planned.ok()) return planned.error();
  point.chosen = automatic->plan().requests.front().form;
  Result<Prepared> expanded = prepare(shape, row, Form::kExpanded, sampler.options());
  if (!expanded) return expanded.error();
  Result<Prepared> absorbed = prepare(shape, row, Form::kAbsorbed, sampler.options());
  if (!absorbed) return absorbed.error();
  const Result<bench::BandwidthProbe> memory =
      bench::BandwidthProbe::make(static_cast<std::int64_t>(absorbed->data.latent_bytes()));
  if (!memory) return memory.error();
  std::vector<double> bandwidths;
  double spent = 0.0;
  while (expanded->samples.size() < kMostSamples &&
         (spent < flags.max_seconds || expanded->samples.size() < 3)) {
    for (Prepared* form : {&*expanded, &*absorbed}) {
      Result<bench::Sample> sample = sampler.take([&] { return form->data.run(); });
      if (!sample) return sample.error();
      spent += sample->seconds;
      form->samples.push_back(*sample);
    }
    bandwidths.push_back(memory->gigabytes_per_second());
  }
  set_bounds(*absorbed, bandwidths, &point);
  point.expanded = timed(*expanded);
  point.absorbed = timed(*absorbed);
  return point;
}

Json json_of(const Timed& form) {
  return {{"share_median", form.speed.median_share},
          {"share_best", form.speed.best_share},
          {"samples", form.speed.samples}};
}

Json json_of(const std::vector<Point>& points, const Row& row, const Flags& flags) {
  Json list = Json::array();
  for (const Point& point : points) {
    list.push_back({{"new_tokens", point.request.new_tokens},
                    {"context", point.request.context},
                    {"expanded", json_of(point.expanded)},
                    {"absorbed", json_of(point.absorbed)},
                    {"absorbed_over_expanded", point.absorbed_over_expanded()},
                    {"absorbed_bound", point.memory_bound ? "memory" : "multiply-adds"},
                    {"absorbed_share_of_bound", point.absorbed_bounded},
                    {"bandwidth_gb_per_second", point.bandwidth},
                    {"chosen", name(point.chosen)},
                    {"loss", point.loss()}});
  }
  return {{"machine", {{"cpu", this_machine().cpu_name}}},
          {"row", row.full_name()},
          {"dtype", name(*parse_dtype(flags.dtype))},
          {"num_heads", flags.heads},
          {"points", list}};
}

void print_table(const std::vector<Point>& points, const Row& row) {
  const Style style = stdout_style();
  Table table({{"new", Align::kRight},
               {"context", Align::kRight},
               {"expanded", Align::kRight},
               {"absorbed", Align::kRight},
               {"of its bound", Align::kRight},
               {"bound"},
               {"absorbed time", Align::kRight},
               {"chosen"},
               {"loses", Align::kRight}});
  for (const Point& point : points) {
    const bool lost = point.loss() > 0.1;
    table.add({count_text(point.request.new_tokens), count_text(point.request.context),
               percent_text(point.expanded.speed.median_share),
               percent_text(point.absorbed.speed.median_share),
               percent_text(point.absorbed_bounded), point.memory_bound ? "memory" : "fma",
               number_text(point.absorbed_over_expanded()) + " x", std::string(name(point.chosen)),
               Cell(percent_text(point.loss()), lost ? Tone::kWarn : Tone::kPlain)});
  }
  print(style(Tone::kStrong, row.full_name()) + "\n" + table.text(style, 0) + "\n" +
        style(Tone::kDim,
              "Shares of the row's peak probe by what each form computes. Its bound: the later of "
              "multiply-adds at that peak\nand one reading of the latents at the bandwidth that "
              "plain reads of as much memory (at least 16 MiB) reach.\nAbsorbed time over "
              "expanded time, interleaved, one thread by its CPU time, medians. Loses: the\n"
              "automatic choice against the better form.") +
        "\n");
}

Result<std::vector<Point>> measure_all(const Flags& flags, DType dtype, const Row& row) {
  std::vector<Point> points;
  Progress progress("", static_cast<std::int64_t>(flags.fresh.size() * flags.context.size()));
  for (const std::int64_t context : flags.context) {
    for (const std::int64_t fresh : flags.fresh) {
      progress.label(count_text(fresh) + " new over " + count_text(context));
      Result<Point> point = measure(flags, row, shape_of(flags, dtype, {fresh, context}));
      if (!point) return point.error();
      points.push_back(*point);
      progress.advance();
    }
  }
  return points;
}

int run(const Flags& flags) {
  const std::optional<DType> dtype = parse_dtype(flags.dtype);
  if (!dtype || *dtype == DType::kFloat8E4M3) {
    return fail(kBadInput, "--dtype: got '" + flags.dtype + "', expected bf16, fp16 or fp32");
  }
  Problem problem;
  problem.dims = {128, 64, 128};
  problem.dtype = *dtype;
  const Result<RunChoice> choice = choose_for_run(problem, flags.backend, "cpu");
  if (!choice) return fail(choice.error());
  if (flags.kernel) {
    return bench_beside_kernel(
        {flags.fresh, flags.context, flags.threads, flags.heads, flags.samples, flags.json},
        *choice, *dtype);
  }
  const Result<std::vector<Point>> points = measure_all(flags, *dtype, choice->row);
  if (!points) return fail(points.error());
  if (flags.json) {
    print(pretty(json_of(*points, choice->row, flags)));
  } else if (flags.html) {
    print(prefill_page(json_of(*points, choice->row, flags)));
  } else {
    print_table(*points, choice->row);
  }
  return kOk;
}

}  // namespace

Action declare_bench_prefill(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--backend", flags->backend, "A CPU row such as CPU:avx2; without it: the choice")
      ->type_name("NAME");
  app.add_option("--dtype", flags->dtype, "bf16, fp16 or fp32")
      ->type_name("DTYPE")
      ->capture_default_str();
  app.add_option("--new", flags->fresh, "New tokens; without it: 1,16,64,128,256,1024")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 17))
      ->type_name("N,N");
  app.add_option("--context", flags->context, "Tokens in the cache; without it: 0,1024,8192,32768")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20))
      ->type_name("N,N");
  app.add_option("--heads", flags->heads, "Heads")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--max-seconds", flags->max_seconds, "About how long each point may take")
      ->check(CLI::Range(0.1, 86400.0))
      ->type_name("S")
      ->capture_default_str();
  CLI::Option* json = app.add_flag("--json", flags->json, "One JSON object");
  app.add_flag("--html", flags->html, "One self-contained page with the crossover")->excludes(json);
  CLI::Option* kernel =
      app.add_flag("--kernel", flags->kernel,
                   "Instead of the two forms: the operator beside its attention kernel")
          ->excludes("--html");
  app.add_option("--threads", flags->threads, "With --kernel: numbers of threads")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->needs(kernel)
      ->type_name("N,N")
      ->capture_default_str();
  app.add_option("--samples", flags->samples, "With --kernel: turns of each")
      ->check(CLI::Range(1, 1000))
      ->needs(kernel)
      ->type_name("N")
      ->capture_default_str();
  app.footer(
      "Examples:\n  mla bench prefill --backend CPU:avx2\n"
      "  mla bench prefill --new 16,64,256 --context 8192,32768 --json\n"
      "  mla bench prefill --kernel --new 2048 --context 8192,32768 --threads 1,2");
  return [flags] { return run(*flags); };
}

}  // namespace mla::cli
