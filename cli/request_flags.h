// The flags of a selection request, shared by select and explain. They become the JSON request of
// `mla select --jsonl`, so that a flag and a field mean the same.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "mla/core.h"

namespace mla::cli {

class RequestFlags {
 public:
  void declare(CLI::App& app);
  // The request as one JSON object; errors name the flag.
  Result<std::string> request_json() const;
  bool any_given() const;

 private:
  std::string model_, dims_, dtype_, platform_, capability_, arch_, cpu_, backend_, compat_;
  std::vector<std::string> disabled_, unloadable_, not_installed_;
  bool fallback_ = false;
  std::vector<CLI::Option*> options_;
};

}  // namespace mla::cli
