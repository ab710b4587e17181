// The mla command line: a table of commands, and the one place where errors become exit codes.
#include <csignal>
#include <exception>
#include <string>
#include <vector>

#include "command.h"
#include "console.h"
#include "mla/core.h"
#include "mla/registry.h"

namespace mla::cli {
namespace {

constexpr Command kCommands[] = {
    {"devices", "This machine: CPU, instruction sets, threads, GPUs, drivers", declare_devices},
    {"backends", "Every backend row, what it needs, and whether it runs here", declare_backends},
    {"model", "The attention of a model, from its config.json or by name", declare_model},
    {"select", "Choose a backend for a problem and a platform", declare_select},
    {"explain", "The same with every row that was considered and all its reasons", declare_explain},
    {"matrix", "Models by platforms: what would be chosen where", declare_matrix},
    {"run", "Run MLA prefill attention here, verify it, and measure it", declare_run},
    {"check", "Run the conformance suite on the rows of this machine", declare_check},
    {"bench", "Measure the rows of this machine as a share of their own peak", declare_bench},
};

constexpr const char* kFooter =
    "Start with:  mla run\n"
    "--plugin LIB.so, before or behind a command, adds a plug-in's row.\n"
    "Each command has --help with examples, and --json where it prints something.\n"
    "Exit codes: 0 fine, 1 a selection or verification error, 2 bad usage or input.";

// CLI11's messages, without line breaks, with where to read on.
int bad_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "mla";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  return fail(kBadInput, std::string(error.what()) + " (see " + command + " --help)");
}

// An empty value, from a variable that is not set, is not the same as none.
void refuse_empty_values(CLI::App& app) {
  const CLI::Validator not_empty(
      [](const std::string& text) {
        return text.empty() ? std::string("is empty; leave it out instead") : std::string();
      },
      "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(not_empty);
  }
  for (CLI::App* sub : app.get_subcommands({})) refuse_empty_values(*sub);
}

int run(int argc, char** argv) {
  CLI::App app("Selects and runs MLA prefill attention.", "mla");
  app.set_version_flag("--version", "mla " + std::string(version()));
  app.require_subcommand(0, 1);
  app.footer(kFooter);
  std::vector<std::string> plugins;
  app.add_option("--plugin", plugins, "Load a plug-in library first; its row joins the others")
      ->type_name("LIB.so")
      ->expected(1)
      ->take_all();
  Action action;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->fallthrough();  // --plugin may stand behind the command
    sub->callback([&action, run = command.declare(*sub)] { action = run; });
  }
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(app.help());  // of the command, where one was given
    return finish(kOk);
  } catch (const CLI::CallForVersion& asked) {
    print(std::string(asked.what()) + "\n");
    return finish(kOk);
  } catch (const CLI::ParseError& error) {
    return bad_usage(app, error);
  }
  if (!action) {
    print(app.help());
    return finish(kOk);
  }
  for (const std::string& path : plugins) {
    const Result<std::string> loaded = load_plugin(path);
    if (!loaded) return fail(loaded.error());
  }
  return finish(action());
}

}  // namespace
}  // namespace mla::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, which finish() reports
  try {
    return mla::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return mla::cli::fail(mla::cli::kBadInput, "out of memory");
  } catch (const std::exception& error) {  // nothing is expected here; still one line, not a crash
    return mla::cli::fail(mla::cli::kBadInput, error.what());
  }
}
