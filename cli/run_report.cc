// Head first, so that a long run shows at once what it is about.
#include "run_report.h"

#include "console.h"
#include "mla/platform.h"
#include "table.h"
#include "verdicts.h"

namespace mla::cli {
namespace {

constexpr std::size_t kRequestsShown = 12;

void print_section(const Style& style, const std::string& title, const std::string& body) {
  print(style(Tone::kStrong, title) + "\n");
  std::size_t start = 0;
  for (std::size_t end; (end = body.find('\n', start)) != std::string::npos; start = end + 1) {
    print("  " + body.substr(start, end - start) + "\n");
  }
  print("\n");
}

// The kind and what sets it apart; mla devices lists the instruction sets.
std::string short_text(const Platform& platform) {
  if (platform.kind != DeviceKind::kCpu) return to_string(platform);
  return platform.cpu.vendor.empty() ? "cpu" : "cpu, " + platform.cpu.vendor;
}

std::string machine_text(const RunReport& report, const Style& style, int columns) {
  const Machine& machine = this_machine();
  Facts facts;
  facts.add("CPU", machine.cpu_name.empty() ? "unknown" : machine.cpu_name);
  facts.add("threads", std::to_string(report.threads) + " used, " +
                           std::to_string(machine.usable_threads) + " usable of " +
                           plural(machine.logical_cpus, "logical CPU"));
  facts.add("selection for", short_text(report.choice.platform));
  return facts.text(style, columns);
}

std::string model_text(const RunReport& report, const Style& style, int columns) {
  const ModelConfig& config = report.config;
  Facts facts;
  facts.add("name", report.model);
  if (report.source != report.model) facts.add("source", report.source);
  facts.add("dims", to_string(config.dims));
  const bool fewer = report.shape.num_heads != config.num_heads;
  facts.add("heads", fewer ? std::to_string(report.shape.num_heads) + " of " +
                                 std::to_string(config.num_heads)
                           : std::to_string(config.num_heads));
  facts.add("kv_lora_rank", std::to_string(config.kv_lora_rank));
  facts.add("dtype", std::string(name(report.shape.dtype)));
  facts.add("softmax scale", number_text(config.softmax_scale));
  return facts.text(style, columns);
}

std::string batch_text(const RunReport& report, const Style& style) {
  const auto& requests = report.shape.requests;
  Table table(
      {{"request", Align::kRight}, {"new tokens", Align::kRight}, {"context", Align::kRight}});
  const std::size_t shown = requests.size() > kRequestsShown ? kRequestsShown - 2 : requests.size();
  for (std::size_t r = 0; r < shown; ++r) {
    table.add(
        {std::to_string(r), count_text(requests[r].new_tokens), count_text(requests[r].context)});
  }
  if (shown < requests.size()) {
    table.add({"...", "", ""});
    table.add({std::to_string(requests.size() - 1), count_text(requests.back().new_tokens),
               count_text(requests.back().context)});
  }
  const std::int64_t fresh = bench::new_tokens(report.shape);
  table.add({Cell("sum", Tone::kDim), count_text(fresh),
             count_text(bench::key_tokens(report.shape) - fresh)});
  return table.text(style, 0);
}

Json speed_json(const RunReport& report) {
  const bench::Speed& speed = report.speed;
  if (speed.samples == 0) return nullptr;
  const bool probed = speed.probe_gflops > 0.0;
  return {{"clock", report.clock},
          {"samples", speed.samples},
          {"gflops_median", speed.median_gflops},
          {"gflops_best", speed.best_gflops},
          {"probe_gflops", probed ? Json(speed.probe_gflops) : Json()},
          {"share_of_probe_median", probed ? Json(speed.median_share) : Json()},
          {"share_of_probe_best", probed ? Json(speed.best_share) : Json()}};
}

std::string speed_text(const RunReport& report) {
  const bench::Speed& speed = report.speed;
  return number_text(speed.median_gflops) + " GFLOP/s, best " + number_text(speed.best_gflops) +
         " (" + plural(speed.samples, "run") + ", " + plural(report.threads, "thread") + ", " +
         report.clock + ")";
}

std::string share_text(const RunReport& report) {
  const bench::Speed& speed = report.speed;
  if (speed.probe_gflops <= 0.0) return "this row has no peak probe";
  return percent_text(speed.median_share) + ", best " + percent_text(speed.best_share) + ", of " +
         number_text(speed.probe_gflops) +
         " GFLOP/s that the row's own multiply-add units reached between the runs";
}

std::string limit_text(const bench::Worst& worst) {
  return number_text(worst.error) + " where " + number_text(worst.allowed) + " is allowed";
}

Json json_of(const bench::Worst& worst) {
  return {{"worst_error", worst.error},
          {"allowed_error", worst.allowed},
          {"share_of_tolerance", worst.share}};
}

}  // namespace

std::string worst_text(const bench::Accuracy& accuracy) {
  if (!accuracy.finite) return "a result is not finite where the reference is";
  return "worst error " + limit_text(accuracy.out) + ", of log-sum-exp " + limit_text(accuracy.lse);
}

void print_head(const RunReport& report) {
  const Style style = stdout_style();
  const int columns = stdout_columns() > 2 ? stdout_columns() - 2 : 0;
  print_section(style, "Machine", machine_text(report, style, columns));
  print_section(style, "Model", model_text(report, style, columns));
  std::string selection = verdict_text(verdicts_of(*report.choice.selection), style, columns);
  print_section(style, "Selection", selection);
  if (!report.choice.note.empty()) print("  " + report.choice.note + "\n\n");
  print_section(style, "Batch", batch_text(report, style));
}

void print_result(const RunReport& report) {
  const Style style = stdout_style();
  const int columns = stdout_columns() > 2 ? stdout_columns() - 2 : 0;
  Facts facts;
  facts.add("verified", report.passed() ? "yes" : "NO", report.passed() ? Tone::kGood : Tone::kBad);
  facts.add("", worst_text(report.accuracy));
  facts.add("", plural(report.accuracy.rows, "row") +
                    " of one head against double precision, the first and last of every request "
                    "among them");
  facts.add("computed by", report.method);
  facts.add("speed", speed_text(report));
  facts.add("share of peak", share_text(report));
  print_section(style, "Result", facts.text(style, columns));
}

Json json_of(const RunReport& report) {
  const Machine& machine = this_machine();
  const bench::Accuracy& accuracy = report.accuracy;
  Json requests = Json::array();
  for (const bench::RequestLengths& request : report.shape.requests) {
    requests.push_back({{"new_tokens", request.new_tokens}, {"context", request.context}});
  }
  const Json verification = {{"passed", report.passed()},
                             {"rows", accuracy.rows},
                             {"out", json_of(accuracy.out)},
                             {"lse", json_of(accuracy.lse)}};
  return {{"machine",
           {{"cpu", machine.cpu_name},
            {"usable_threads", machine.usable_threads},
            {"platform", json_of(report.choice.platform)}}},
          {"model",
           {{"name", report.model},
            {"source", report.source},
            {"dims", json_of(report.config.dims)},
            {"num_heads", report.config.num_heads},
            {"kv_lora_rank", report.config.kv_lora_rank},
            {"softmax_scale", report.config.softmax_scale}}},
          {"selection", Json::parse(mla::to_json(*report.choice.selection))},
          {"note", text_or_null(report.choice.note)},
          {"batch",
           {{"dtype", name(report.shape.dtype)},
            {"num_heads", report.shape.num_heads},
            {"requests", requests},
            {"flops", report.flops}}},
          {"method", report.method},
          {"plan", report.plan_json.empty() ? Json() : Json::parse(report.plan_json)},
          {"threads", report.threads},
          {"verification", verification},
          {"speed", speed_json(report)}};
}

}  // namespace mla::cli
