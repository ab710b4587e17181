// `mla matrix`: models by platforms, what would be chosen where. As a table, models of the same
// dims and dtype share a column, for a selection depends on nothing else of a model.
#include <algorithm>

#include "command.h"
#include "console.h"
#include "fleet.h"
#include "json.h"
#include "models.h"
#include "page.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

struct Flags {
  std::vector<std::string> models;
  std::string dtype;
  bool json = false;
  bool html = false;
};

struct Model {
  std::string name;
  std::string source;
  Problem problem;
};

struct Grid {
  std::vector<Model> models;
  std::vector<FleetMember> platforms;
  std::vector<std::vector<Selection>> cells;  // [model][platform]
};

Result<std::vector<Model>> chosen_models(const Flags& flags) {
  std::optional<DType> dtype;
  if (!flags.dtype.empty()) {
    dtype = parse_dtype(flags.dtype);
    if (!dtype) {
      return Error{ErrorCode::kInvalidArgument, "dtype",
                   "--dtype: got '" + flags.dtype + "', expected bf16, fp16, fp32 or fp8_e4m3"};
    }
  }
  std::vector<Model> models;
  if (flags.models.empty()) {
    for (const NamedModel& model : named_models()) {
      models.push_back(
          {std::string(model.name), std::string(model.source), model.config.problem()});
    }
  }
  for (const std::string& wanted : flags.models) {
    const Result<ModelConfig> config = model_from(wanted, "--model");
    if (!config) return config.error();
    models.push_back({wanted, model_source(wanted), config->problem()});
  }
  for (Model& model : models) model.problem.dtype = dtype.value_or(model.problem.dtype);
  return models;
}

Grid fill(std::vector<Model> models) {
  Grid matrix{std::move(models), fleet(), {}};
  for (const Model& model : matrix.models) {
    auto& row = matrix.cells.emplace_back();
    for (const FleetMember& member : matrix.platforms) {
      row.push_back(select_uncached(model.problem, member.platform, {}, default_registry()));
    }
  }
  return matrix;
}

Json json_of(const Grid& matrix) {
  Json platforms = Json::array();
  for (const FleetMember& member : matrix.platforms) {
    Json entry = {{"id", member.id}, {"title", member.title}};
    entry.update(cli::json_of(member.platform));
    platforms.push_back(entry);
  }
  Json models = Json::array();
  Json cells = Json::array();
  for (std::size_t m = 0; m < matrix.models.size(); ++m) {
    const Model& model = matrix.models[m];
    models.push_back({{"name", model.name},
                      {"source", model.source},
                      {"dims", cli::json_of(model.problem.dims)},
                      {"dtype", name(model.problem.dtype)}});
    for (std::size_t p = 0; p < matrix.platforms.size(); ++p) {
      Json cell = {{"model", model.name}, {"platform", matrix.platforms[p].id}};
      cell.update(Json::parse(mla::to_json(matrix.cells[m][p])));
      cells.push_back(cell);
    }
  }
  return {{"models", models}, {"platforms", platforms}, {"cells", cells}};
}

std::string group_title(const Problem& problem) {
  const MlaDims& dims = problem.dims;
  return std::to_string(dims.qk_nope_head_dim) + "/" + std::to_string(dims.qk_rope_head_dim) + "/" +
         std::to_string(dims.v_head_dim) + "\n" + std::string(name(problem.dtype));
}

// Indices of models by group, in order of first appearance.
std::vector<std::pair<std::string, std::vector<std::size_t>>> groups_of(const Grid& matrix) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;
  for (std::size_t m = 0; m < matrix.models.size(); ++m) {
    const std::string title = group_title(matrix.models[m].problem);
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == title; });
    if (found == groups.end()) found = groups.insert(groups.end(), {title, {}});
    found->second.push_back(m);
  }
  return groups;
}

int print_table(const Grid& matrix) {
  const Style style = stdout_style();
  const auto groups = groups_of(matrix);
  std::vector<Column> columns = {{"platform"}};
  Table legend({{"dims"}, {"dtype"}, {"models"}});
  for (const auto& [title, members] : groups) {
    const std::string dims = title.substr(0, title.find('\n'));
    columns.push_back({dims});
    std::vector<std::string> names;
    for (const std::size_t m : members) names.push_back(matrix.models[m].name);
    legend.add(
        {Cell(dims, Tone::kStrong), title.substr(title.find('\n') + 1), joined(names, ", ")});
  }
  columns.push_back({"machine"});
  Table table(columns);
  for (std::size_t p = 0; p < matrix.platforms.size(); ++p) {
    std::vector<Cell> cells = {Cell(matrix.platforms[p].id, Tone::kStrong)};
    for (const auto& [title, members] : groups) {
      const Selection& cell = matrix.cells[members.front()][p];
      cells.push_back(cell.ok() ? Cell(cell.full_name(), Tone::kGood) : Cell("none", Tone::kBad));
    }
    cells.emplace_back(matrix.platforms[p].title, Tone::kDim);
    table.add(std::move(cells));
  }
  print(table.text(style, 0) + "\n" + legend.text(style, stdout_columns()));
  print("\n" + style(Tone::kDim, "mla explain says why, for one model and platform.") + "\n");
  return kOk;
}

int run(const Flags& flags) {
  Result<std::vector<Model>> models = chosen_models(flags);
  if (!models) return fail(models.error());
  const Grid matrix = fill(std::move(*models));
  if (flags.json) {
    print(pretty(json_of(matrix)));
  } else if (flags.html) {
    print(matrix_page(json_of(matrix)));
  } else {
    return print_table(matrix);
  }
  return kOk;
}

}  // namespace

Action declare_matrix(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--model", flags->models, "Only these: names, or paths of config.json files")
      ->delimiter(',')
      ->type_name("A,B");
  app.add_option("--dtype", flags->dtype, "Instead of each model's own: bf16, fp16, fp32")
      ->type_name("DTYPE");
  CLI::Option* json = app.add_flag("--json", flags->json, "One JSON object");
  app.add_flag("--html", flags->html, "One self-contained page")->excludes(json);
  app.footer(
      "Examples:\n  mla matrix\n  mla matrix --model deepseek-v3,glm-5 --dtype fp16\n"
      "  mla matrix --html > matrix.html");
  return [flags] { return run(*flags); };
}

}  // namespace mla::cli
