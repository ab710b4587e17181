// `mla explain`: a selection as a table for people, every row with all its reasons.
#include "command.h"
#include "console.h"
#include "json.h"
#include "request_flags.h"
#include "table.h"
#include "units.h"
#include "verdicts.h"

namespace mla::cli {
namespace {

struct Flags {
  RequestFlags request;
  bool json = false;
  bool all = false;
};

// The rows of the registry that the selection did not look at, each asked for by itself.
std::vector<Verdict> not_considered(const Request& request, const Selection& selection) {
  std::vector<Verdict> verdicts;
  for (const Row& row : default_registry().rows()) {
    const std::string full_name = row.full_name();
    bool considered = selection.ok() && full_name == selection.full_name();
    for (const Rejected& rejected : selection.rejected) {
      considered = considered || full_name == row_name(rejected.backend, rejected.variant);
    }
    if (considered) continue;
    Policy policy = request.policy;
    policy.backend = full_name;
    policy.fallback = false;
    policy.compat = Compat::kNone;  // compat mode ignores what is asked for on some platforms
    const Selection alone =
        select_uncached(request.problem, request.platform, policy, default_registry());
    if (alone.ok()) {
      verdicts.push_back({full_name, "also valid", Tone::kPlain, {}});
      continue;
    }
    for (const Rejected& rejected : alone.rejected) {
      verdicts.push_back({full_name, "not in the order", Tone::kDim, rejected.reasons});
    }
  }
  return verdicts;
}

std::string policy_text(const Policy& policy) {
  std::vector<std::string> parts;
  parts.push_back(policy.backend.empty() ? "automatic" : policy.backend + " asked for");
  if (policy.fallback) parts.emplace_back("fallback allowed");
  if (policy.compat == Compat::kVllm) parts.emplace_back("as vLLM decides");
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {
      {"disabled: ", &policy.disabled},
      {"not loadable: ", &policy.unloadable},
      {"not installed: ", &policy.not_installed}};
  for (const auto& [title, names] : lists) {
    if (!names->empty()) parts.push_back(title + joined(*names, " "));
  }
  return joined(parts, ", ");
}

void print_facts(const Request& request, const Style& style) {
  Facts facts;
  facts.add("problem",
            std::string(name(request.problem.dtype)) + " " + to_string(request.problem.dims));
  facts.add("platform", to_string(request.platform) +
                            (request.platform.simulated ? " (described, not this machine)" : ""));
  facts.add("policy", policy_text(request.policy));
  print(facts.text(style, stdout_columns()) + "\n");
}

void print_explanation(const Request& request, const Selection& selection, bool all) {
  const Style style = stdout_style();
  print_facts(request, style);
  std::vector<Verdict> verdicts = verdicts_of(selection);
  const std::vector<Verdict> others = not_considered(request, selection);
  if (all) verdicts.insert(verdicts.end(), others.begin(), others.end());
  print(verdict_text(verdicts, style, stdout_columns()));
  if (!selection.note.empty()) print("\nnote: " + selection.note + "\n");
  if (selection.fallback) print("\nThe backend asked for is not valid; this is the fallback.\n");
  std::vector<std::string> valid;
  for (const Verdict& other : others) {
    if (other.reasons.empty()) valid.push_back(other.row);
  }
  if (!all && selection.ok() && !valid.empty()) {
    print("\n" +
          style(Tone::kDim,
                "Also valid, further down: " + joined(valid, ", ") + " (--all lists every row)") +
          "\n");
  }
}

int run(const Flags& flags) {
  const Result<std::string> json = flags.request.request_json();
  if (!json) return fail(json.error());
  const Result<Request> request = parse_request(*json);
  if (!request) return fail(kBadInput, request.error().message);
  const auto selection = select(request->problem, request->platform, request->policy);
  if (flags.json) {
    print(to_json(*selection) + "\n");
  } else {
    print_explanation(*request, *selection, flags.all);
  }
  return selection->ok() ? kOk : fail(kFailed, selection->error->message);
}

}  // namespace

Action declare_explain(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  flags->request.declare(app);
  app.add_flag("--all", flags->all, "Also the rows that are not in the order for this platform");
  app.add_flag("--json", flags->json, "The answer of mla select --json");
  app.footer(
      "Examples:\n"
      "  mla explain --model deepseek-v3\n"
      "  mla explain --model deepseek-v3 --platform cuda --capability 10.0\n"
      "  mla explain --dims 192,64,256 --platform cuda --capability 9.0 --all");
  return [flags] { return run(*flags); };
}

}  // namespace mla::cli
