// `mla select`: the machine-readable face of the selection, one request by flags or many by lines.
#include "command.h"
#include "console.h"
#include "input.h"
#include "json.h"
#include "request_flags.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

struct Flags {
  RequestFlags request;
  bool json = false;
  bool jsonl = false;
};

std::string invalid_request(std::string message) {
  Selection selection;
  selection.error = Error{ErrorCode::kInvalidRequest, "", std::move(message)};
  return to_json(selection);
}

int answer_each_line() {
  LineService service;
  service.answer = [](const std::string& line, std::int64_t) { return select_json(line); };
  service.refuse = [](std::int64_t, const std::string& why) { return invalid_request(why); };
  return answer_lines(service);
}

std::string full_name(const Json& row, const char* key) {
  std::string text = row.at(key).get<std::string>();
  if (row.at("variant").is_string()) text += ":" + row.at("variant").get<std::string>();
  return text;
}

void print_choice(const Json& answer) {
  std::string how =
      answer.at("explicit").get<bool>() ? "as asked for" : "by the order of preference";
  if (answer.at("fallback").get<bool>()) how = "as a fallback: the backend asked for is not valid";
  const auto refused = static_cast<std::int64_t>(answer.at("rejected").size());
  if (refused > 0) how += "; " + plural(refused, "row") + " refused (mla explain says why)";
  const Style style = stdout_style();
  print(style(Tone::kGood, full_name(answer, "selected")) + "  " + style(Tone::kDim, how) + "\n");
}

int answer_one(const Flags& flags) {
  const Result<std::string> request = flags.request.request_json();
  const std::string text =
      request ? select_json(*request) : invalid_request(request.error().message);
  const Json answer = Json::parse(text);
  if (flags.json) print(text + "\n");
  if (answer.at("error").is_null()) {
    if (!flags.json) print_choice(answer);
    return kOk;
  }
  const bool invalid = answer.at("error").at("code") == name(ErrorCode::kInvalidRequest);
  return fail(invalid ? kBadInput : kFailed, answer.at("error").at("message").get<std::string>());
}

}  // namespace

Action declare_select(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  flags->request.declare(app);
  CLI::Option* json = app.add_flag("--json", flags->json, "The answer as one line of JSON");
  app.add_flag("--jsonl", flags->jsonl, "Read one JSON request a line from stdin, answer each")
      ->excludes(json);
  app.footer(
      "Examples:\n"
      "  mla select --model deepseek-v3\n"
      "  mla select --model deepseek-v3 --platform cuda --capability 10.0 --json\n"
      "  mla select --dims 128,64,128 --platform cpu --cpu AuthenticAMD:avx2,fma,f16c\n"
      "  mla select --jsonl < requests.jsonl\n"
      "Exit code: 0 selected, 1 nothing valid, 2 bad usage or input.");
  return [flags] {
    if (!flags->jsonl) return answer_one(*flags);
    if (flags->request.any_given()) {
      return fail(kBadInput, "select: --jsonl takes requests from stdin, not from other flags");
    }
    return answer_each_line();
  };
}

}  // namespace mla::cli
