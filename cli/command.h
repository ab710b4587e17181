// What a command of `mla` is: a name, a summary, and a function that declares its flags and hands
// back what runs once they are parsed. main.cc holds the table of them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace mla::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;    // a selection or verification error
inline constexpr int kBadInput = 2;  // bad usage or input

// Returns the exit code.
using Action = std::function<int()>;

struct Command {
  const char* name;
  const char* summary;
  Action (*declare)(CLI::App& app);
};

Action declare_devices(CLI::App& app);
Action declare_backends(CLI::App& app);
Action declare_model(CLI::App& app);
Action declare_select(CLI::App& app);
Action declare_explain(CLI::App& app);
Action declare_matrix(CLI::App& app);
Action declare_run(CLI::App& app);
Action declare_check(CLI::App& app);
Action declare_bench(CLI::App& app);
Action declare_bench_prefill(CLI::App& app);  // a subcommand of bench

}  // namespace mla::cli
