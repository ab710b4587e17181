// `mla bench`: the rows of this machine on the shapes of docs/performance.md, each figure a share
// of the row's own peak probe.
#include <algorithm>

#include "bench/comparison.h"
#include "bench/ragged_case.h"
#include "bench/suite.h"
#include "command.h"
#include "console.h"
#include "json.h"
#include "memory.h"
#include "mla/platform.h"
#include "page.h"
#include "rows.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

struct Flags {
  std::string backend = "all";
  std::vector<std::string> shapes;
  std::string dtype = "bf16";
  std::vector<int> threads;
  int min_samples = 0;
  double max_seconds = 5.0;
  bool json = false;
  bool html = false;
};

// A figure for each number of threads.
struct Entry {
  std::string row;
  bench::FigureConfig config;
  std::vector<bench::Figure> figures;
};

struct Skipped {
  std::string row;
  std::string why;
};

struct Plan {
  std::vector<RowHere> rows;  // keeps the implementations alive
  std::vector<Entry> entries;
  std::vector<Skipped> skipped;
};

Error bad_flag(const std::string& flag, const std::string& message) {
  return {ErrorCode::kInvalidArgument, flag, "--" + flag + ": " + message};
}

Result<std::vector<bench::Shape>> chosen_shapes(const Flags& flags, DType dtype) {
  const std::vector<bench::Shape> all = bench::standard_shapes(dtype);
  if (flags.shapes.empty()) return all;
  std::vector<bench::Shape> chosen;
  for (const std::string& wanted : flags.shapes) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const bench::Shape& shape) { return shape.name == wanted; });
    if (found == all.end()) {
      std::vector<std::string> names;
      for (const bench::Shape& shape : all) names.push_back(shape.name);
      return bad_flag("shapes", "no shape '" + wanted + "'; there are " + joined(names, ", "));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// 1, 2, 4, ... and all usable threads.
std::vector<int> thread_ladder() {
  std::vector<int> ladder;
  const int most = this_machine().usable_threads;
  for (int threads = 1; threads < most; threads *= 2) ladder.push_back(threads);
  ladder.push_back(most);
  return ladder;
}

// Without --threads: every shape on one thread, and the ladder where threads have enough to share.
std::vector<int> threads_for(const Flags& flags, const bench::Shape& shape) {
  if (!flags.threads.empty()) return flags.threads;
  const bool shared = shape.name == "prompt-2048" || shape.name == "uneven-8x";
  return shared ? thread_ladder() : std::vector<int>{1};
}

Result<Plan> make_plan(const Flags& flags) {
  const std::optional<DType> dtype = parse_dtype(flags.dtype);
  if (!dtype || *dtype == DType::kFloat8E4M3) {
    return bad_flag("dtype", "got '" + flags.dtype + "', expected bf16, fp16 or fp32");
  }
  for (const int threads : flags.threads) {
    if (threads < 1 || threads > 1024) {
      return bad_flag("threads", "got " + std::to_string(threads) + ", expected 1 to 1024");
    }
  }
  const Result<std::vector<bench::Shape>> shapes = chosen_shapes(flags, *dtype);
  if (!shapes) return shapes.error();
  Result<std::vector<RowHere>> rows = rows_here(flags.backend, default_registry());
  if (!rows) return rows.error();
  Plan plan;
  plan.rows = std::move(*rows);
  for (const RowHere& here : plan.rows) {
    const auto& dtypes = here.row.needs.dtypes;
    if (!here.runs()) {
      plan.skipped.push_back({here.row.full_name(), here.why_not()});
    } else if (std::find(dtypes.begin(), dtypes.end(), *dtype) == dtypes.end()) {
      plan.skipped.push_back({here.row.full_name(), "does not take " + std::string(name(*dtype))});
    } else {
      for (const bench::Shape& shape : *shapes) {
        plan.entries.push_back({here.row.full_name(),
                                {here.row.implementation.get(), shape, threads_for(flags, shape),
                                 flags.min_samples, flags.max_seconds},
                                {}});
      }
    }
  }
  return plan;
}

Status measure(Plan& plan) {
  Progress progress("", static_cast<std::int64_t>(plan.entries.size()));
  for (Entry& entry : plan.entries) {
    progress.label(entry.row + "  " + entry.config.shape.name);
    const std::int64_t available = available_memory();
    if (available > 0 && bench::RaggedCase::bytes_needed(entry.config.shape) >
                             0.8 * static_cast<double>(available)) {
      entry.figures.resize(entry.config.threads.size());
      for (bench::Figure& figure : entry.figures) figure.skipped = "not enough memory";
    } else {
      Result<std::vector<bench::Figure>> figures = bench::measure(entry.config);
      if (!figures) return figures.error();
      entry.figures = std::move(*figures);
    }
    progress.advance();
  }
  return {};
}

Json json_of(const Entry& entry, std::size_t index) {
  const bench::Figure& figure = entry.figures[index];
  const bench::Shape& shape = entry.config.shape;
  Json requests = Json::array();
  for (const bench::RequestLengths& request : shape.requests) {
    requests.push_back({{"new_tokens", request.new_tokens}, {"context", request.context}});
  }
  Json json = {{"row", entry.row},
               {"shape", shape.name},
               {"num_heads", shape.num_heads},
               {"requests", requests},
               {"flops", bench::flops(shape)},
               {"threads", entry.config.threads[index]},
               {"clock", figure.clock},
               {"skipped", text_or_null(figure.skipped)}};
  if (figure.speed.samples > 0) {
    const bool probed = figure.speed.probe_gflops > 0.0;
    json["samples"] = figure.speed.samples;
    json["gflops_median"] = figure.speed.median_gflops;
    json["gflops_best"] = figure.speed.best_gflops;
    json["probe_gflops"] = probed ? Json(figure.speed.probe_gflops) : Json();
    json["share_median"] = probed ? Json(figure.speed.median_share) : Json();
    json["share_best"] = probed ? Json(figure.speed.best_share) : Json();
  }
  json["verified"] = figure.accuracy.rows > 0 ? Json(figure.accuracy.passed()) : Json();
  json["share_of_tolerance"] = figure.accuracy.rows > 0 ? Json(figure.accuracy.out.share) : Json();
  return json;
}

std::vector<bench::SpeedRatio> comparisons(const Plan& plan) {
  std::vector<bench::TimedFigure> figures;
  for (const Entry& entry : plan.entries) {
    for (std::size_t i = 0; i < entry.figures.size(); ++i) {
      const bench::Figure& figure = entry.figures[i];
      if (figure.speed.samples == 0) continue;
      figures.push_back({entry.row, entry.config.shape.name, entry.config.threads[i], figure.speed,
                         figure.over_one_thread});
    }
  }
  return bench::compare(figures);
}

Json json_of(const Plan& plan, const Flags& flags) {
  Json compared = Json::array();
  for (const bench::SpeedRatio& one : comparisons(plan)) {
    compared.push_back({{"row", one.row}, {"what", one.what}, {"ratio", one.ratio}});
  }
  Json entries = Json::array();
  for (const Entry& entry : plan.entries) {
    for (std::size_t i = 0; i < entry.figures.size(); ++i) entries.push_back(json_of(entry, i));
  }
  Json skipped = Json::array();
  for (const Skipped& row : plan.skipped) skipped.push_back({{"row", row.row}, {"why", row.why}});
  const Machine& machine = this_machine();
  return {{"machine",
           {{"cpu", machine.cpu_name},
            {"isa", machine.cpu.isa},
            {"usable_threads", machine.usable_threads}}},
          {"dtype", name(*parse_dtype(flags.dtype))},
          {"dims", Json::array({128, 64, 128})},
          {"figures", entries},
          {"comparisons", compared},
          {"rows_not_run", skipped}};
}

void print_comparisons(const Plan& plan) {
  Table table({{"row"}, {"compared"}, {"speed", Align::kRight}});
  for (const bench::SpeedRatio& one : comparisons(plan)) {
    table.add({Cell(one.row, Tone::kStrong), one.what, number_text(one.ratio) + " x"});
  }
  if (!table.empty()) print("\n" + table.text(stdout_style(), stdout_columns()));
}

void add_lines(const Entry& entry, const std::string& row, Table& table) {
  for (std::size_t i = 0; i < entry.figures.size(); ++i) {
    const bench::Figure& figure = entry.figures[i];
    const bench::Speed& speed = figure.speed;
    const bool timed = speed.samples > 0;
    const bool probed = timed && speed.probe_gflops > 0.0;
    table.add({Cell(i == 0 ? row : "", Tone::kStrong), entry.config.shape.name,
               std::to_string(entry.config.shape.num_heads),
               std::to_string(entry.config.threads[i]),
               Cell(probed ? percent_text(speed.median_share) : "-", Tone::kGood),
               probed ? percent_text(speed.best_share) : "-",
               timed ? number_text(speed.median_gflops) : "-",
               probed ? number_text(speed.probe_gflops) : "-",
               timed ? std::to_string(speed.samples) : "-", Cell(figure.skipped, Tone::kDim)});
  }
}

void print_table(const Plan& plan) {
  const Style style = stdout_style();
  Table table({{"row"},
               {"shape"},
               {"heads", Align::kRight},
               {"threads", Align::kRight},
               {"median", Align::kRight},
               {"best", Align::kRight},
               {"GFLOP/s", Align::kRight},
               {"probe", Align::kRight},
               {"samples", Align::kRight},
               {""}});
  std::string previous;
  for (const Entry& entry : plan.entries) {
    add_lines(entry, entry.row == previous ? "" : entry.row, table);
    previous = entry.row;
  }
  if (!table.empty()) {
    print(table.text(style, stdout_columns()));
    print("\n" +
          style(Tone::kDim,
                "Shares are of the row's own peak probe, run right before and after each "
                "sample. One thread: thread\nCPU time; several: wall clock, as many probes "
                "at once. Threads over 1: wall clock, in turns.\n"
                "Answers were verified before anything was timed.") +
          "\n");
  }
  print_comparisons(plan);
  Table not_run({{"not run"}, {"why"}});
  for (const Skipped& row : plan.skipped) not_run.add({row.row, row.why});
  if (!not_run.empty()) print("\n" + not_run.text(style, stdout_columns()));
}

int run(const Flags& flags) {
  Result<Plan> plan = make_plan(flags);
  if (!plan) return fail(plan.error());
  const Status measured = measure(*plan);
  if (!measured.ok()) return fail(measured.error());
  if (flags.json) {
    print(pretty(json_of(*plan, flags)));
  } else if (flags.html) {
    print(bench_page(json_of(*plan, flags)));
  } else {
    print_table(*plan);
  }
  for (const Entry& entry : plan->entries) {
    for (const bench::Figure& figure : entry.figures) {
      if (figure.accuracy.rows > 0 && !figure.accuracy.passed()) {
        flush_output();
        return fail(kFailed, "bench: " + entry.row + " on " + entry.config.shape.name +
                                 " is outside the tolerance; it was not timed");
      }
    }
  }
  return plan->entries.empty() ? fail(kFailed, "bench: none of these rows can run here") : kOk;
}

}  // namespace

Action declare_bench(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--backend", flags->backend, "A backend, one variant of it (CPU:avx2), or all")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--shapes", flags->shapes, "Only these, such as prompt-2048,context-512+8192")
      ->delimiter(',')
      ->type_name("A,B");
  app.add_option("--dtype", flags->dtype, "bf16, fp16 or fp32")
      ->type_name("DTYPE")
      ->capture_default_str();
  app.add_option("--threads", flags->threads,
                 "Numbers of threads; without it: one, and more where they have enough to share")
      ->delimiter(',')
      ->type_name("N,N");
  app.add_option("--min-samples", flags->min_samples,
                 "Samples of each figure; without it: 20, or 7 where a run takes long, fewer "
                 "within --max-seconds")
      ->check(CLI::Range(1, 10000))
      ->type_name("N");
  app.add_option("--max-seconds", flags->max_seconds, "About how long each figure may take")
      ->check(CLI::Range(0.1, 86400.0))
      ->type_name("S")
      ->capture_default_str();
  CLI::Option* json = app.add_flag("--json", flags->json, "One JSON object");
  app.add_flag("--html", flags->html, "One self-contained page with plots")->excludes(json);
  app.footer(
      "Examples:\n  mla bench --backend CPU:avx2 --shapes prompt-512,prompt-2048\n"
      "  mla bench --threads 1,2 --json > bench.json\n  mla bench --html > bench.html\n"
      "  mla bench prefill");
  app.require_subcommand(0, 1);
  CLI::App* prefill = app.add_subcommand("prefill", "The prefill operator's two forms instead");
  return [flags, prefill, measure_forms = declare_bench_prefill(*prefill)] {
    return prefill->parsed() ? measure_forms() : run(*flags);
  };
}

}  // namespace mla::cli
