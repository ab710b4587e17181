// stdin is the one source that the library does not read by itself.
#include "models.h"

#include "input.h"

namespace mla::cli {

Result<ModelConfig> model_from(const std::string& name_or_path, const std::string& flag) {
  if (name_or_path.empty()) {
    return Error{ErrorCode::kUnknownName, "model", flag + " is empty, expected a name or a path"};
  }
  if (name_or_path == "-") {
    Result<std::string> text = read_stdin();
    if (!text) return text.error();
    return parse_model_config(*text, "stdin");
  }
  return load_model(name_or_path);
}

std::string model_source(const std::string& name_or_path) {
  if (name_or_path == "-") return "stdin";
  const NamedModel* model = find_named_model(name_or_path);
  return model != nullptr ? std::string(model->source) : name_or_path;
}

}  // namespace mla::cli
