// A plan as text: for people and as JSON.
#include <fmt/format.h>

#include <iterator>

#include "mla/prefill.h"
#include "prefill/units.h"

namespace mla::prefill {
namespace {

std::string_view name(FormReason reason) {
  switch (reason) {
    case FormReason::kNothingToDo:
      return "nothing_to_do";
    case FormReason::kForced:
      return "forced";
    case FormReason::kOnlyForm:
      return "only_form";
    case FormReason::kCheaper:
      return "cheaper";
  }
  return "";
}

std::string why(const RequestPlan& request) {
  const double ratio = request.form == Form::kExpanded
                           ? request.absorbed_seconds / request.expanded_seconds
                           : request.expanded_seconds / request.absorbed_seconds;
  const Form other = request.form == Form::kExpanded ? Form::kAbsorbed : Form::kExpanded;
  switch (request.reason) {
    case FormReason::kNothingToDo:
      return "no new tokens";
    case FormReason::kForced:
      return fmt::format("asked for; {} is modelled at {:.2f}x its time", name(other), ratio);
    case FormReason::kOnlyForm:
      return fmt::format("backend or budget do not allow {}", name(other));
    case FormReason::kCheaper:
      return fmt::format("{} is modelled at {:.2f}x its time", name(other), ratio);
  }
  return "";
}

}  // namespace

std::string_view name(Form form) {
  switch (form) {
    case Form::kAuto:
      return "auto";
    case Form::kExpanded:
      return "expanded";
    case Form::kAbsorbed:
      return "absorbed";
  }
  return "invalid";
}

std::optional<Form> parse_form(std::string_view text) {
  for (Form form : {Form::kAuto, Form::kExpanded, Form::kAbsorbed}) {
    if (text == name(form)) return form;
  }
  return std::nullopt;
}

std::string Plan::to_string() const {
  std::string text = fmt::format(
      "{} requests, {} new tokens, {} workers on {}, {:.1f} MiB scratch\n", requests.size(),
      total_tokens, workers, kernels, static_cast<double>(scratch_bytes) / (1 << 20));
  const auto out = std::back_inserter(text);
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const RequestPlan& request = requests[r];
    if (request.new_tokens == 0) {
      fmt::format_to(out, "  {}: no new tokens over {} of context\n", r, request.context_tokens);
      continue;
    }
    fmt::format_to(out,
                   "  {}: {} new over {} of context: {} ({}), in chunks of {} tokens and {} heads",
                   r, request.new_tokens, request.context_tokens, name(request.form), why(request),
                   request.query_chunk, request.head_group);
    const std::int64_t parts = parts_of(request);
    if (parts > 1) fmt::format_to(out, ", keys in {} parts of {}", parts, request.keys_per_part);
    text += '\n';
  }
  return text;
}

std::string Plan::to_json() const {
  std::string text = fmt::format(
      "{{\"total_tokens\":{},\"scratch_bytes\":{},\"workers\":{},\"kernels\":\"{}\","
      "\"requests\":[",
      total_tokens, scratch_bytes, workers, kernels);
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const RequestPlan& request = requests[r];
    fmt::format_to(std::back_inserter(text),
                   "{}{{\"new_tokens\":{},\"context_tokens\":{},\"form\":\"{}\",\"reason\":\"{}\","
                   "\"expanded_seconds\":{:.6g},\"absorbed_seconds\":{:.6g},\"query_chunk\":{},"
                   "\"head_group\":{},\"keys_per_part\":{},\"parts\":{}}}",
                   r == 0 ? "" : ",", request.new_tokens, request.context_tokens,
                   name(request.form), name(request.reason), request.expanded_seconds,
                   request.absorbed_seconds, request.query_chunk, request.head_group,
                   request.keys_per_part, parts_of(request));
  }
  return text + "]}";
}

}  // namespace mla::prefill
