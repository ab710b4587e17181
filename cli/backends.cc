// `mla backends`: every row of the registry, what it needs, and whether this machine can run it.
#include "command.h"
#include "console.h"
#include "json.h"
#include "rows.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

Json json_of(const RowHere& here) {
  return {{"backend", here.row.backend},
          {"variant", text_or_null(here.row.variant)},
          {"description", here.row.description},
          {"needs", cli::json_of(here.row.needs)},
          {"fits_here", here.fits},
          {"runs_here", here.runs()},
          {"reasons", cli::json_of(here.reasons)}};
}

std::string devices_text(const Requirements& needs) {
  std::vector<std::string> parts;
  for (const DeviceKind kind : needs.devices) parts.emplace_back(name(kind));
  std::string text = joined(parts, ", ");
  parts.clear();
  for (const auto& range : needs.capabilities) {
    const std::string low = std::to_string(range.min_major) + ".x";
    if (range.min_major == range.max_major) {
      parts.push_back(low);
    } else {
      // A top far above any capability there is means "and newer".
      parts.push_back(range.max_major >= 99
                          ? "from " + low
                          : low + " to " + std::to_string(range.max_major) + ".x");
    }
  }
  if (!parts.empty()) text += " " + joined(parts, ", ");
  if (!needs.archs.empty()) text += " " + joined(needs.archs, " ");
  if (!needs.cpu_vendor.empty()) text += " " + needs.cpu_vendor;
  if (needs.min_cpu_family > 0) text += " family >= " + std::to_string(needs.min_cpu_family);
  return text;
}

std::string needs_text(const Requirements& needs) {
  std::vector<std::string> dtypes;
  for (const DType dtype : needs.dtypes) dtypes.emplace_back(name(dtype));
  std::string text = joined(dtypes, " ");
  if (!needs.isa.empty()) text += "\n" + joined(needs.isa, " ");
  if (needs.dims.empty()) return text + "\nany dims";
  std::vector<std::string> dims;
  for (const MlaDims& one : needs.dims) {
    dims.push_back(std::to_string(one.qk_nope_head_dim) + "/" +
                   std::to_string(one.qk_rope_head_dim) + "/" + std::to_string(one.v_head_dim));
  }
  return text + "\n" + joined(dims, "  ");
}

Cell here_cell(const RowHere& here) {
  if (here.runs()) return {"runs here", Tone::kGood};
  return {here.why_not(), here.fits ? Tone::kWarn : Tone::kPlain};
}

// Names that exist without a row: CUSTOM before it is registered.
std::vector<std::string> names_without_row(const Registry& registry) {
  std::vector<std::string> names;
  for (const std::string& backend : registry.names()) {
    if (!registry.find(backend)) names.push_back(backend);
  }
  return names;
}

int print_json(const Registry& registry) {
  Json rows = Json::array();
  for (const RowHere& here : rows_here(registry)) rows.push_back(json_of(here));
  print(pretty({{"rows", rows}, {"unregistered", names_without_row(registry)}}));
  return kOk;
}

int print_table(const Registry& registry, bool wide) {
  std::vector<Column> columns = {{"backend"}, {"runs on"}};
  if (wide) columns.push_back({"needs"});
  columns.push_back({"this machine"});
  Table table(columns);
  for (const RowHere& here : rows_here(registry)) {
    std::vector<Cell> cells = {
        Cell(here.row.full_name(), here.runs() ? Tone::kStrong : Tone::kPlain),
        devices_text(here.row.needs)};
    if (wide) cells.emplace_back(needs_text(here.row.needs));
    cells.push_back(here_cell(here));
    table.add(std::move(cells));
  }
  for (const std::string& backend : names_without_row(registry)) {
    std::vector<Cell> cells(columns.size(), Cell(""));
    cells.front() = Cell(backend);
    cells.back() = Cell("no row registered under this name yet", Tone::kDim);
    table.add(std::move(cells));
  }
  print(table.text(stdout_style(), stdout_columns()));
  return kOk;
}

}  // namespace

Action declare_backends(CLI::App& app) {
  struct Flags {
    bool json = false;
    bool wide = false;
  };
  auto flags = std::make_shared<Flags>();
  app.add_flag("--json", flags->json, "One JSON object with every requirement");
  app.add_flag("--wide", flags->wide, "Also dtypes, instruction sets and dims of each row");
  app.footer("Examples:\n  mla backends\n  mla backends --wide\n  mla backends --json");
  return [flags] {
    return flags->json ? print_json(default_registry())
                       : print_table(default_registry(), flags->wide);
  };
}

}  // namespace mla::cli
