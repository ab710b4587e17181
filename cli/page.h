// Self-contained HTML pages: one file with its style, its script and its data, nothing fetched.
#pragma once

#include <string>

#include "json.h"

namespace mla::cli {

std::string matrix_page(const Json& matrix);
std::string bench_page(const Json& results);
std::string prefill_page(const Json& results);

}  // namespace mla::cli
