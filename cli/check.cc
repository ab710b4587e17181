// `mla check`: the row contract and the prefill operator's properties on every row that this
// machine can run, a line a property.
#include <algorithm>

#include "command.h"
#include "conformance/conformance.h"
#include "conformance/prefill.h"
#include "console.h"
#include "json.h"
#include "rows.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

using conformance::Outcome;
using conformance::Verdict;

struct Flags {
  std::string backend = "all";
  bool json = false;
  bool list = false;
};

struct RowResult {
  std::string row;
  std::string cannot_run;  // empty: it ran
  std::vector<Verdict> verdicts;
};

Json json_of(const RowResult& result) {
  Json verdicts = Json::array();
  for (const Verdict& verdict : result.verdicts) {
    verdicts.push_back({{"property", verdict.property},
                        {"outcome", conformance::name(verdict.outcome)},
                        {"batches", verdict.batches},
                        {"share_of_out_bound", verdict.out_error},
                        {"share_of_lse_bound", verdict.lse_error},
                        {"seconds", verdict.seconds},
                        {"detail", verdict.detail}});
  }
  return {{"row", result.row},
          {"ran", result.cannot_run.empty()},
          {"cannot_run", text_or_null(result.cannot_run)},
          {"properties", verdicts}};
}

Cell outcome_cell(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return {"passed", Tone::kGood};
    case Outcome::kFailed:
      return {"FAILED", Tone::kBad};
    case Outcome::kSkipped:
      return {"skipped", Tone::kDim};
  }
  return {""};
}

// Fixed widths: the lines are printed as the verdicts fall.
void print_verdict(const Verdict& verdict, const Style& style) {
  std::string name = verdict.property;
  name.resize(std::max<std::size_t>(name.size(), 24), ' ');
  const Cell outcome = outcome_cell(verdict.outcome);
  std::string detail = verdict.detail;
  if (detail.empty()) detail = count_text(verdict.batches) + " batches";
  std::string state = outcome.text;
  state.resize(8, ' ');
  print("  " + name + style(outcome.tone, state) + " " +
        (verdict.outcome == Outcome::kFailed ? detail : style(Tone::kDim, detail)) + "\n");
  flush_output();
}

RowResult check_row(const RowHere& here, bool quiet, Progress& progress) {
  RowResult result{here.row.full_name(), here.why_not(), {}};
  if (!result.cannot_run.empty()) return result;
  const Style style = stdout_style();
  if (!quiet) print(style(Tone::kStrong, result.row) + "\n");
  const conformance::Subject subject{result.row, here.row.implementation.get(),
                                     here.row.needs.dtypes, here.row.needs.dims};
  const auto add = [&](std::string_view property, const auto& check) {
    progress.label(result.row + " " + std::string(property));
    result.verdicts.push_back(check(property));
    progress.hide();
    if (!quiet) print_verdict(result.verdicts.back(), style);
    progress.advance();
  };
  for (const conformance::Property& property : conformance::properties()) {
    add(property.name, [&](std::string_view name) { return conformance::check(name, subject); });
  }
  for (const conformance::Property& property : conformance::prefill_properties()) {
    add(property.name,
        [&](std::string_view name) { return conformance::check_prefill(name, subject); });
  }
  if (!quiet) print("\n");
  return result;
}

void print_summary(const std::vector<RowResult>& results) {
  const Style style = stdout_style();
  Table not_run({{"not run"}, {"why"}});
  std::int64_t rows = 0;
  std::int64_t failed = 0;
  std::int64_t checked = 0;
  for (const RowResult& result : results) {
    if (!result.cannot_run.empty()) {
      not_run.add({result.row, result.cannot_run});
      continue;
    }
    ++rows;
    for (const Verdict& verdict : result.verdicts) {
      checked += verdict.outcome != Outcome::kSkipped ? 1 : 0;
      failed += verdict.outcome == Outcome::kFailed ? 1 : 0;
    }
  }
  if (!not_run.empty()) print(not_run.text(style, stdout_columns()) + "\n");
  const std::string text = plural(rows, "row") + " checked, " + count_text(checked) +
                           " properties held to, " + count_text(failed) + " broken.";
  print(style(failed == 0 ? Tone::kGood : Tone::kBad, text) + "\n");
}

int list_properties(bool json) {
  Table table({{"property"}, {"what it claims"}});
  Json list = Json::array();
  for (const auto* properties : {&conformance::properties(), &conformance::prefill_properties()}) {
    for (const conformance::Property& property : *properties) {
      table.add({Cell(std::string(property.name), Tone::kStrong), std::string(property.meaning)});
      list.push_back({{"property", property.name}, {"meaning", property.meaning}});
    }
  }
  print(json ? pretty({{"properties", list}}) : table.text(stdout_style(), stdout_columns()));
  return kOk;
}

int run(const Flags& flags) {
  if (flags.list) return list_properties(flags.json);
  const Result<std::vector<RowHere>> rows = rows_here(flags.backend, default_registry());
  if (!rows) return fail(rows.error());
  std::vector<RowResult> results;
  bool failed = false;
  bool ran = false;
  {
    const auto runnable =
        std::count_if(rows->begin(), rows->end(), [](const RowHere& here) { return here.runs(); });
    const std::size_t each =
        conformance::properties().size() + conformance::prefill_properties().size();
    Progress progress("", runnable * static_cast<std::int64_t>(each));
    for (const RowHere& here : *rows) {
      results.push_back(check_row(here, flags.json, progress));
      ran = ran || results.back().cannot_run.empty();
      for (const Verdict& verdict : results.back().verdicts) {
        failed = failed || verdict.outcome == Outcome::kFailed;
      }
    }
  }
  if (flags.json) {
    Json list = Json::array();
    for (const RowResult& result : results) list.push_back(json_of(result));
    print(pretty({{"passed", ran && !failed}, {"rows", list}}));
  } else {
    print_summary(results);
  }
  if (failed) return fail(kFailed, "check: a row breaks its contract");
  return ran ? kOk : fail(kFailed, "check: none of these rows can run on this machine");
}

}  // namespace

Action declare_check(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--backend", flags->backend, "A backend, one variant of it (CPU:avx2), or all")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--list", flags->list, "Only the properties and what they claim");
  app.add_flag("--json", flags->json, "One JSON object");
  app.footer(
      "Examples:\n  mla check\n  mla check --backend CPU:avx2\n  mla check --list\n"
      "  mla check --plugin ./libmine.so --backend MINE\n"
      "Exit code: 0 all hold, 1 a property is broken or nothing could run, 2 bad usage or input.");
  return [flags] { return run(*flags); };
}

}  // namespace mla::cli
