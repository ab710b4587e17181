// Which row `mla run` and its like use: the selection for this machine, and what to do about a row
// that libmla only describes.
#pragma once

#include <memory>
#include <string>

#include "mla/config.h"
#include "mla/selector.h"

namespace mla::cli {

struct RunChoice {
  std::shared_ptr<const Selection> selection;
  Platform platform;
  Row row;           // has an implementation
  std::string note;  // why it is not the machine's first choice; usually empty
};

// backend and platform as the flags gave them, empty where they did not. Without either, a GPU row
// that only its own library can run gives way to the CPU, and the note says so.
Result<RunChoice> choose_for_run(const Problem& problem, const std::string& backend,
                                 const std::string& platform);

}  // namespace mla::cli
