// The mla command line.
#include <CLI/CLI.hpp>

#include "mla/core.h"

int main(int argc, char** argv) {
  CLI::App app("Selects and runs MLA prefill attention", "mla");
  app.set_version_flag("--version", std::string(mla::version()));
  app.require_subcommand(0);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
