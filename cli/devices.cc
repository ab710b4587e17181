// `mla devices`: what the platform layer found on this machine.
#include "command.h"
#include "console.h"
#include "json.h"
#include "mla/platform.h"
#include "table.h"
#include "units.h"

namespace mla::cli {
namespace {

Json json_of(const GpuDevice& gpu) {
  Json capability;
  if (gpu.capability) capability = Json::array({gpu.capability->major, gpu.capability->minor});
  return {{"platform", name(gpu.kind)},
          {"index", gpu.index},
          {"name", gpu.name},
          {"capability", capability},
          {"arch", text_or_null(gpu.arch)},
          {"memory_bytes", gpu.memory_bytes}};
}

Json json_of(const Machine& machine) {
  Json gpus = Json::array();
  for (const GpuDevice& gpu : machine.gpus) gpus.push_back(json_of(gpu));
  Json drivers = Json::array();
  for (const DriverReport& driver : machine.drivers) {
    drivers.push_back(
        {{"platform", name(driver.kind)}, {"present", driver.present}, {"detail", driver.detail}});
  }
  return {{"cpu",
           {{"name", machine.cpu_name},
            {"vendor", text_or_null(machine.cpu.vendor)},
            {"family", machine.cpu.family},
            {"model", machine.cpu.model},
            {"isa", machine.cpu.isa},
            {"isa_refused", machine.isa_refused},
            {"caches",
             {{"l1d", machine.caches.l1d}, {"l2", machine.caches.l2}, {"l3", machine.caches.l3}}},
            {"logical_cpus", machine.logical_cpus},
            {"usable_threads", machine.usable_threads},
            {"threads_limited_by", text_or_null(machine.threads_limited_by)}}},
          {"gpus", gpus},
          {"drivers", drivers},
          {"selected_platform", cli::json_of(this_platform())}};
}

std::string threads_text(const Machine& machine) {
  std::string text =
      std::to_string(machine.usable_threads) + " of " + plural(machine.logical_cpus, "logical CPU");
  if (!machine.threads_limited_by.empty()) text += ", limited by " + machine.threads_limited_by;
  return text;
}

std::string gpu_text(const GpuDevice& gpu) {
  std::string text = gpu.name;
  if (gpu.capability) {
    text += ", compute capability " + std::to_string(gpu.capability->major) + "." +
            std::to_string(gpu.capability->minor);
  }
  if (!gpu.arch.empty()) text += ", " + gpu.arch;
  if (gpu.memory_bytes > 0) text += ", " + bytes_text(gpu.memory_bytes);
  return text;
}

int print_table(const Machine& machine) {
  Facts facts;
  const Cpu& cpu = machine.cpu;
  facts.add("CPU", machine.cpu_name.empty() ? "unknown" : machine.cpu_name, Tone::kStrong);
  facts.add("vendor", (cpu.vendor.empty() ? "unknown" : cpu.vendor) + ", family " +
                          std::to_string(cpu.family) + ", model " + std::to_string(cpu.model));
  facts.add("instruction sets",
            cpu.isa.empty() ? "none that a row asks for" : joined(cpu.isa, " "));
  for (const std::string& refused : machine.isa_refused) {
    facts.add("not usable", refused, Tone::kWarn);
  }
  facts.add("caches", "L1d " + bytes_text(machine.caches.l1d) + ", L2 " +
                          bytes_text(machine.caches.l2) + ", L3 " + bytes_text(machine.caches.l3));
  facts.add("threads", threads_text(machine));
  for (const GpuDevice& gpu : machine.gpus) {
    facts.add(std::string(name(gpu.kind)) + " " + std::to_string(gpu.index), gpu_text(gpu),
              Tone::kStrong);
  }
  for (const DriverReport& driver : machine.drivers) {
    facts.add(std::string(name(driver.kind)) + " driver", driver.detail,
              driver.present ? Tone::kGood : Tone::kDim);
  }
  const Platform platform = this_platform();
  facts.add("selection for", platform.kind == DeviceKind::kCpu ? "cpu" : to_string(platform));
  print(facts.text(stdout_style(), stdout_columns()));
  return kOk;
}

}  // namespace

Action declare_devices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "One JSON object");
  app.footer("Examples:\n  mla devices\n  mla devices --json");
  return [json] {
    if (!*json) return print_table(this_machine());
    print(pretty(json_of(this_machine())));
    return kOk;
  };
}

}  // namespace mla::cli
