// The caller's log sink, with once-semantics.
#include <mutex>
#include <set>

#include "mla/core.h"

namespace mla {
namespace {

struct LogState {
  std::mutex mutex;
  LogSink sink;
  std::set<std::pair<LogLevel, std::string>, std::less<>> said;
};

// Never destroyed: a thread may still log while the process ends.
LogState& log_state() {
  static LogState* const state = new LogState;
  return *state;
}

}  // namespace

void set_log_sink(LogSink sink) {
  LogState& state = log_state();
  const std::lock_guard lock(state.mutex);
  state.sink = std::move(sink);
}

void log_once(LogLevel level, std::string_view text) {
  LogState& state = log_state();
  LogSink sink;
  {
    const std::lock_guard lock(state.mutex);
    if (!state.sink) return;
    if (!state.said.emplace(level, text).second) return;
    sink = state.sink;
  }
  sink(level, text);
}

}  // namespace mla
