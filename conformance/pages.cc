// Memory outside the described ranges is neither read nor written, not even where a vector could
// reach over: inputs and outputs lie against pages that may not be touched, in a child process, so
// that a touch is a verdict and not the end of the program.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "properties.h"

namespace mla::conformance {
namespace {

constexpr unsigned kPatience = 60;  // seconds; a library's own threads may not survive fork()

enum class Ending : std::uint8_t { kClean, kTouched, kRefused, kSilent, kNoChild };

// Serial: the child has one thread whatever the parent had.
Ending run_in_child(const Trial& trial, const BatchSpec& spec) {
  const ::pid_t child = ::fork();
  if (child < 0) return Ending::kNoChild;
  if (child == 0) {
    for (int fault : {SIGSEGV, SIGBUS, SIGALRM}) ::signal(fault, SIG_DFL);
    ::alarm(kPatience);
    const Batch batch(spec);
    const Run run = batch.run(trial.implementation(), {&serial_executor(), 1});
    ::_exit(run.status.ok() ? 0 : 1);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return Ending::kNoChild;
  if (WIFEXITED(status)) {
    // Sanitizers turn the signal into an exit of their own.
    return WEXITSTATUS(status) == 0   ? Ending::kClean
           : WEXITSTATUS(status) == 1 ? Ending::kRefused
                                      : Ending::kTouched;
  }
  return WTERMSIG(status) == SIGALRM ? Ending::kSilent : Ending::kTouched;
}

}  // namespace

void check_outside_memory(Trial& trial) {
  const std::vector<Dims> all = trial.all_dims_or({{192, 128}, {33, 17}, {1, 3}});
  for (DType dtype : trial.dtypes()) {
    for (Place place : {Place::kPageEnd, Place::kPageStart}) {
      for (const Dims& dims : all) {
        BatchSpec spec = trial.spec(dtype);
        spec.qk_dim = dims.qk;
        spec.v_dim = dims.v;
        spec.place = place;
        spec.q_lengths = {19, 1, 67};
        spec.k_lengths = {19, 33, 67};
        switch (run_in_child(trial, spec)) {
          case Ending::kClean:
            trial.count();
            break;
          case Ending::kRefused:
            return trial.fault(spec, "refused");
          case Ending::kTouched:
            return trial.fault(spec, place == Place::kPageEnd
                                         ? "memory behind a tensor's last row was touched"
                                         : "memory before a tensor's first row was touched");
          case Ending::kSilent:
            return trial.skip("the backend does not run in a forked process");
          case Ending::kNoChild:
            return trial.skip("no process could be started");
        }
      }
    }
  }
}

}  // namespace mla::conformance
