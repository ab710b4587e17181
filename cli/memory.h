// How much memory a run may ask for.
#pragma once

#include <cstdint>

namespace mla::cli {

// Bytes the system says are free for use, within the cgroup's limit; 0: unknown.
std::int64_t available_memory();

}  // namespace mla::cli
