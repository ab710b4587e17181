// MLA dimensions as text.
#include <fmt/format.h>

#include "mla/core.h"

namespace mla {

std::string_view version() { return MLA_VERSION; }

std::string to_string(const MlaDims& dims) {
  return fmt::format("(qk_nope_head_dim={}, qk_rope_head_dim={}, v_head_dim={})",
                     dims.qk_nope_head_dim, dims.qk_rope_head_dim, dims.v_head_dim);
}

}  // namespace mla
