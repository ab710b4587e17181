// libFuzzer: any bytes as a config.json. Whatever they are, there is an answer, it is JSON, and
// what was accepted is sound.
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "mla/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const mla::Result<mla::ModelConfig> config = mla::parse_model_config(text, "fuzz");
  if (config.ok()) {
    const bool sound = config->dims.qk_nope_head_dim > 0 && config->dims.qk_rope_head_dim >= 0 &&
                       config->dims.v_head_dim > 0 && config->kv_lora_rank > 0 &&
                       config->num_heads > 0 && std::isfinite(config->softmax_scale);
    if (!sound) std::abort();
  }
  if (nlohmann::json::parse(mla::model_config_json(text))["error"].is_null() != config.ok()) {
    std::abort();
  }
  return 0;
}
