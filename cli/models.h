// Models as the commands take them: a name, the path of a config.json, or - for stdin.
#pragma once

#include <string>

#include "mla/config.h"

namespace mla::cli {

// `flag` names the argument in errors.
Result<ModelConfig> model_from(const std::string& name_or_path, const std::string& flag);
// Where its numbers come from: the source of a named model, else the path.
std::string model_source(const std::string& name_or_path);

}  // namespace mla::cli
