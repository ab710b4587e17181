// The JSON answers: of one selection, of a request that is an error, of a matrix.
#include "config/json.h"
#include "mla/selector.h"

namespace mla {
namespace {

json::Answer text_or_null(const std::string& text) {
  return text.empty() ? json::Answer(nullptr) : json::Answer(text);
}

json::Answer to_answer(const Rejected& rejected) {
  json::Answer reasons = json::Answer::array();
  for (const Reason& reason : rejected.reasons) {
    reasons.push_back({{"code", name(reason.code)}, {"text", reason.text}});
  }
  return {{"backend", rejected.backend},
          {"variant", text_or_null(rejected.variant)},
          {"reasons", std::move(reasons)}};
}

json::Answer to_answer(const Selection& selection) {
  json::Answer rejected = json::Answer::array();
  for (const Rejected& row : selection.rejected) rejected.push_back(to_answer(row));
  json::Answer error = nullptr;
  if (selection.error) {
    error = {{"code", name(selection.error->code)}, {"message", selection.error->message}};
    if (selection.error->code == ErrorCode::kInvalidRequest) {
      error["field"] = text_or_null(selection.error->field);
    }
  }
  return {{"selected", text_or_null(selection.backend)},
          {"variant", text_or_null(selection.variant)},
          {"explicit", selection.is_explicit},
          {"fallback", selection.fallback},
          {"note", text_or_null(selection.note)},
          {"rejected", std::move(rejected)},
          {"error", std::move(error)}};
}

}  // namespace

std::string to_json(const Selection& selection) { return json::dump(to_answer(selection)); }

std::string to_json(const Error& error) {
  Selection selection;
  selection.error = error;
  return to_json(selection);
}

std::string to_json(const Matrix& matrix) {
  json::Answer models = json::Answer::array();
  for (std::size_t i = 0; i < matrix.models.size(); ++i) {
    json::Answer cells = json::Answer::array();
    for (std::size_t j = 0; j < matrix.platforms.size(); ++j) {
      cells.push_back(to_answer(matrix.at(i, j)));
    }
    models.push_back({{"name", matrix.models[i]}, {"cells", std::move(cells)}});
  }
  return json::dump({{"platforms", matrix.platforms}, {"models", std::move(models)}});
}

}  // namespace mla
