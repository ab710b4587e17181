// `mla model`: what a Hugging Face config.json says about a model's attention.
#include "command.h"
#include "console.h"
#include "input.h"
#include "json.h"
#include "models.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

struct Flags {
  std::string config;
  bool json = false;
  bool jsonl = false;
};

int answer_each_line() {
  LineService service;
  service.answer = [](const std::string& line, std::int64_t number) {
    return to_json(parse_model_config(line, "line " + std::to_string(number)));
  };
  service.refuse = [](std::int64_t number, const std::string& why) {
    return to_json(Result<ModelConfig>(
        Error{ErrorCode::kNotReadable, "", "line " + std::to_string(number) + ": " + why}));
  };
  return answer_lines(service);
}

std::string dims_text(const MlaDims& dims) {
  return std::to_string(dims.qk_nope_head_dim) + "/" + std::to_string(dims.qk_rope_head_dim) + "/" +
         std::to_string(dims.v_head_dim);
}

int list_models(bool json) {
  if (json) {
    Json models = Json::array();
    for (const NamedModel& model : named_models()) {
      Json entry = {{"name", model.name}, {"source", model.source}};
      entry.update(Json::parse(to_json(Result<ModelConfig>(model.config))));
      entry.erase("error");
      models.push_back(entry);
    }
    print(pretty({{"models", models}}));
    return kOk;
  }
  Table table({{"model"},
               {"nope/rope/v"},
               {"heads", Align::kRight},
               {"kv_lora_rank", Align::kRight},
               {"scale", Align::kRight},
               {"source"}});
  for (const NamedModel& model : named_models()) {
    table.add({Cell(std::string(model.name), Tone::kStrong), dims_text(model.config.dims),
               std::to_string(model.config.num_heads), std::to_string(model.config.kv_lora_rank),
               number_text(model.config.softmax_scale),
               Cell(std::string(model.source), Tone::kDim)});
  }
  print(table.text(stdout_style(), stdout_columns()));
  return kOk;
}

int print_model(const std::string& source, const ModelConfig& config) {
  Facts facts;
  facts.add("source", source, Tone::kStrong);
  if (!config.model_type.empty()) facts.add("model_type", config.model_type);
  facts.add("qk_nope_head_dim", std::to_string(config.dims.qk_nope_head_dim));
  facts.add("qk_rope_head_dim", std::to_string(config.dims.qk_rope_head_dim));
  facts.add("v_head_dim", std::to_string(config.dims.v_head_dim));
  facts.add("kv_lora_rank", std::to_string(config.kv_lora_rank));
  facts.add("q_lora_rank", config.q_lora_rank ? std::to_string(*config.q_lora_rank)
                                              : "none (q is not compressed)");
  facts.add("heads", std::to_string(config.num_heads));
  facts.add("dtype", std::string(name(config.dtype)));
  facts.add("softmax scale", number_text(config.softmax_scale));
  print(facts.text(stdout_style(), stdout_columns()));
  return kOk;
}

int run(const Flags& flags) {
  if (flags.jsonl) return answer_each_line();
  if (flags.config.empty()) return list_models(flags.json);
  const Result<ModelConfig> config = model_from(flags.config, "CONFIG");
  if (flags.json) print(to_json(config) + "\n");
  if (!config) return fail(config.error());
  return flags.json ? kOk : print_model(model_source(flags.config), *config);
}

}  // namespace

Action declare_model(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::Option* config = app.add_option("CONFIG", flags->config,
                                       "A named model, the path of a config.json, or - for stdin; "
                                       "without it: the named models");
  CLI::Option* json = app.add_flag("--json", flags->json, "One JSON object");
  app.add_flag("--jsonl", flags->jsonl, "Read one config object a line from stdin, answer each")
      ->excludes(config)
      ->excludes(json);
  app.footer(
      "Examples:\n  mla model\n  mla model deepseek-v3\n  mla model path/to/config.json --json\n"
      "  mla model --jsonl < configs.jsonl");
  return [flags] { return run(*flags); };
}

}  // namespace mla::cli
