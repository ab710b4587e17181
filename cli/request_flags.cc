// Flags are turned into fields one by one; what a field may hold is judged by the library's own
// request parser.
#include "request_flags.h"

#include <algorithm>
#include <charconv>

#include "json.h"
#include "mla/config.h"
#include "mla/registry.h"
#include "models.h"

namespace mla::cli {
namespace {

Error bad_flag(const std::string& flag, const std::string& got, const std::string& wanted) {
  return {ErrorCode::kInvalidRequest, flag,
          "--" + flag + ": got '" + got + "', expected " + wanted};
}

// Integers between separators; false when anything else is there.
bool parse_integers(const std::string& text, char separator, std::vector<std::int64_t>& numbers) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return false;
    numbers.push_back(number);
    if (next == end) return true;
    if (*next != separator) return false;
    at = next + 1;
  }
}

Result<Json> parse_capability(const std::string& text) {
  if (text == "unknown") return Json();
  std::vector<std::int64_t> numbers;
  if (!parse_integers(text, '.', numbers) || numbers.size() != 2) {
    return bad_flag("capability", text, "MAJOR.MINOR such as 10.0, or unknown");
  }
  return Json(numbers);
}

// {"vendor": ..., "isa": [...]} or VENDOR:isa,isa
Result<Json> parse_cpu(const std::string& text) {
  if (!text.empty() && text.front() == '{') {
    Json cpu = Json::parse(text, nullptr, false);
    if (cpu.is_discarded()) return bad_flag("cpu", text, "a JSON object or VENDOR:isa,isa");
    return cpu;
  }
  const std::size_t colon = text.find(':');
  Json isa = Json::array();
  if (colon != std::string::npos) {
    for (const std::string& one : CLI::detail::split(text.substr(colon + 1), ',')) {
      if (!one.empty()) isa.push_back(one);
    }
  }
  return Json{{"vendor", text.substr(0, colon)}, {"isa", isa}};
}

// A name that no row has would change nothing, and nobody who mistyped it would know.
Status check_backends(std::string flag, const std::vector<std::string>& names) {
  std::ranges::replace(flag, '_', '-');
  for (const std::string& name : names) {
    const Result<std::vector<Row>> found = default_registry().find(name);
    if (!found && found.error().code == ErrorCode::kUnknownName) {
      return Error{ErrorCode::kInvalidRequest, flag, "--" + flag + ": " + found.error().message};
    }
  }
  return {};
}

void add_names(CLI::App& app, const char* flag, std::vector<std::string>& names, const char* help,
               std::vector<CLI::Option*>& options) {
  options.push_back(
      app.add_option(flag, names, help)->delimiter(',')->type_name("A,B")->group("Policy"));
}

}  // namespace

void RequestFlags::declare(CLI::App& app) {
  const auto text = [&](const char* flag, std::string& value, const char* help, const char* type,
                        const char* group) {
    options_.push_back(app.add_option(flag, value, help)->type_name(type)->group(group));
    return options_.back();
  };
  CLI::Option* model = text("--model", model_, "A named model (see mla model) or a config.json",
                            "NAME|PATH", "Problem");
  text("--dims", dims_, "qk_nope_head_dim,qk_rope_head_dim,v_head_dim", "N,R,V", "Problem")
      ->excludes(model);
  text("--dtype", dtype_, "bf16, fp16, fp32 or fp8_e4m3", "DTYPE", "Problem");
  text("--platform", platform_, "cuda, rocm or cpu; without it: this machine", "KIND", "Platform");
  text("--capability", capability_, "Compute capability such as 10.0, or unknown", "MAJOR.MINOR",
       "Platform");
  text("--arch", arch_, "ROCm architecture such as gfx942", "NAME", "Platform");
  text("--cpu", cpu_, "A CPU such as AuthenticAMD:avx2,fma,f16c; without it: this machine's",
       "VENDOR:ISA", "Platform");
  text("--backend", backend_, "Ask for one backend, or one variant of it: CPU:avx2", "NAME",
       "Policy");
  options_.push_back(app.add_flag("--fallback", fallback_,
                                  "Go on with the automatic order when --backend is not valid")
                         ->group("Policy"));
  text("--compat", compat_, "vllm: decide and word it as vLLM does", "NAME", "Policy");
  add_names(app, "--disabled", disabled_, "Backends not to be used", options_);
  add_names(app, "--unloadable", unloadable_, "Pretend that these libraries do not load", options_);
  add_names(app, "--not-installed", not_installed_,
            "Pretend that what these depend on is not installed", options_);
}

bool RequestFlags::any_given() const {
  for (const CLI::Option* option : options_) {
    if (option->count() > 0) return true;
  }
  return false;
}

Result<std::string> RequestFlags::request_json() const {
  Json request = Json::object();
  if (!model_.empty()) {
    Result<ModelConfig> config = model_from(model_, "--model");
    if (!config) return config.error();
    request["dims"] = json_of(config->dims);
    request["dtype"] = name(config->dtype);
  }
  if (!dims_.empty()) {
    std::vector<std::int64_t> dims;
    if (!parse_integers(dims_, ',', dims) || dims.size() != 3) {
      return bad_flag("dims", dims_, "three integers such as 128,64,128");
    }
    request["dims"] = dims;
  }
  if (!capability_.empty()) {
    Result<Json> capability = parse_capability(capability_);
    if (!capability) return capability.error();
    request["capability"] = *capability;
  }
  if (!cpu_.empty()) {
    Result<Json> cpu = parse_cpu(cpu_);
    if (!cpu) return cpu.error();
    request["cpu"] = *cpu;
  }
  const std::pair<const char*, const std::string*> texts[] = {{"dtype", &dtype_},
                                                              {"platform", &platform_},
                                                              {"arch", &arch_},
                                                              {"backend", &backend_},
                                                              {"compat", &compat_}};
  for (const auto& [field, value] : texts) {
    if (!value->empty()) request[field] = *value;
  }
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {
      {"disabled", &disabled_}, {"unloadable", &unloadable_}, {"not_installed", &not_installed_}};
  for (const auto& [field, names] : lists) {
    if (Status status = check_backends(field, *names); !status) return status.error();
    if (!names->empty()) request[field] = *names;
  }
  if (fallback_) request["fallback"] = true;
  return compact(request);
}

}  // namespace mla::cli
