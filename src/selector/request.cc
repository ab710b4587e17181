// A JSON request becomes Problem + Platform + Policy. A field that is null counts as absent, one
// that does not exist is an error: a misspelt field must not change the answer silently.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "config/json.h"
#include "mla/selector.h"

namespace mla {
namespace {

constexpr std::array<std::string_view, 15> kFields = {
    "platform", "capability", "arch",      "cpu",          "dtype",
    "dims",     "model",      "num_heads", "kv_lora_rank", "backend",
    "fallback", "compat",     "disabled",  "unloadable",   "not_installed"};
constexpr std::array<std::string_view, 4> kCpuFields = {"vendor", "family", "model", "isa"};

// A field that decides a choice fits into this; so does every product of two.
constexpr std::int64_t kMaxDim = std::numeric_limits<std::int32_t>::max();

Error invalid(const std::string& field, std::string_view what) {
  return {ErrorCode::kInvalidRequest, field, fmt::format("{} {}", field, what)};
}

// An error of the JSON accessors, as the request's: of dims[1] the field is dims.
Error invalid(const Error& error) {
  return {ErrorCode::kInvalidRequest, error.field.substr(0, error.field.find('[')), error.message};
}

template <class List>
Status check_fields(const json::Value& object, const List& fields, const std::string& prefix) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(fields, key) != fields.end()) continue;
    return invalid(prefix + key,
                   fmt::format("is not a field; the fields are {}", fmt::join(fields, ", ")));
  }
  return {};
}

// Reads fields one after the other and keeps the first error.
class Reader {
 public:
  explicit Reader(const json::Value& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  bool ok() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }
  void fail(Error error) {
    if (ok()) error_ = std::move(error);
  }

  const json::Value* find(std::string_view key) const {
    return ok() ? json::find(object_, key) : nullptr;
  }

  // Gives the field to `read`, a function of json:: that returns a Result.
  template <class Read, class Out>
  void get(const std::string& key, Read read, Out& out) {
    const json::Value* value = find(key);
    if (value == nullptr) return;
    auto result = read(*value, prefix_ + key);
    if (result) {
      out = std::move(*result);
    } else {
      fail(invalid(result.error()));
    }
  }

 private:
  const json::Value& object_;
  std::string prefix_;
  std::optional<Error> error_;
};

auto integer_in(std::int64_t min, std::int64_t max) {
  return [=](const json::Value& value, const std::string& field) {
    return json::integer(value, field, {min, max});
  };
}

Result<std::vector<std::int64_t>> integers(const json::Value& value, const std::string& field,
                                           std::size_t count, std::string_view wanted) {
  if (!value.is_array() || value.size() != count) {
    return Error{ErrorCode::kWrongType, field,
                 fmt::format("{} must be {}, got {}", field, wanted,
                             value.is_array() ? fmt::format("{} elements", value.size())
                                              : std::string(json::type_name(value)))};
  }
  std::vector<std::int64_t> out;
  for (const json::Value& element : value) {
    Result<std::int64_t> number =
        json::integer(element, fmt::format("{}[{}]", field, out.size()), {0, kMaxDim});
    if (!number) return Error{number.error().code, field, number.error().message};
    out.push_back(*number);
  }
  return out;
}

Result<MlaDims> read_dims(const json::Value& value, const std::string& field) {
  auto dims = integers(value, field, 3, "[qk_nope_head_dim, qk_rope_head_dim, v_head_dim]");
  if (!dims) return dims.error();
  return MlaDims{(*dims)[0], (*dims)[1], (*dims)[2]};
}

Result<Capability> read_capability(const json::Value& value, const std::string& field) {
  auto numbers = integers(value, field, 2, "[major, minor]");
  if (!numbers) return numbers.error();
  return Capability{static_cast<int>((*numbers)[0]), static_cast<int>((*numbers)[1])};
}

Result<DType> read_dtype(const json::Value& value, const std::string& field) {
  Result<std::string> text = json::string(value, field);
  if (!text) return text.error();
  if (const std::optional<DType> dtype = parse_dtype(*text)) return *dtype;
  return Error{
      ErrorCode::kWrongType, field,
      fmt::format("{} must be bfloat16, float16, float32 or float8_e4m3, got '{}'", field, *text)};
}

// The words in lower case, in order, without repeats; arm64's kernel calls neon asimd.
IsaSet tidy_isa(std::vector<std::string> words) {
  for (std::string& word : words) {
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
    if (word == "asimd") word = "neon";
  }
  std::ranges::sort(words);
  // Not std::ranges::unique: clang 14 does not compile its result with libstdc++ 12.
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

Result<Cpu> read_cpu(const json::Value& value, const std::string& field) {
  if (!value.is_object()) return json::wrong_type(value, field, "an object");
  if (Status status = check_fields(value, kCpuFields, field + "."); !status) return status.error();
  Reader reader(value, field + ".");
  Cpu cpu;
  reader.get("vendor", json::string, cpu.vendor);
  std::int64_t family = 0;
  std::int64_t model = 0;
  reader.get("family", integer_in(0, kMaxDim), family);
  reader.get("model", integer_in(0, kMaxDim), model);
  reader.get("isa", json::strings, cpu.isa);
  if (!reader.ok()) return reader.error();
  cpu.family = static_cast<int>(family);
  cpu.model = static_cast<int>(model);
  cpu.isa = tidy_isa(std::move(cpu.isa));
  return cpu;
}

// An object, or the name of a model that the library knows.
Result<ModelConfig> read_model(const json::Value& value, const std::string& field) {
  if (value.is_string()) {
    const std::string name = value.get<std::string>();
    if (const NamedModel* model = find_named_model(name)) return model->config;
    return Error{ErrorCode::kUnknownName, field,
                 fmt::format("{} '{}' is not a known model; in a request it is a name or an object",
                             field, name)};
  }
  if (!value.is_object()) return json::wrong_type(value, field, "an object");
  Result<ModelConfig> config = parse_model_config(value.dump(), "");
  if (config) return config;
  Error error = config.error();
  error.field = error.field.empty() ? field : field + "." + error.field;
  error.message = fmt::format("{}: {}", error.field, error.message);
  return error;
}

// ROCm reports a capability of the digits of the architecture: gfx942 is 9.4, gfx1201 12.0.
std::optional<Capability> capability_of(std::string_view arch) {
  arch = arch.substr(0, arch.find(':'));
  if (!arch.starts_with("gfx") || arch.size() < 6 || arch.size() > 7) return std::nullopt;
  int major = 0;
  for (const char c : arch.substr(3, arch.size() - 5)) {
    if (c < '0' || c > '9') return std::nullopt;
    major = major * 10 + (c - '0');
  }
  const char minor = arch[arch.size() - 2];
  if (minor < '0' || minor > '9') return std::nullopt;
  return Capability{major, minor - '0'};
}

// What describes a machine needs the platform it describes, and one of its kind: else it would be
// ignored, and one of the two is a mistake.
Status check_described(Reader& reader, std::optional<DeviceKind> kind) {
  const std::pair<const char*, bool> fields[] = {{"capability", kind != DeviceKind::kCpu},
                                                 {"arch", kind == DeviceKind::kRocm},
                                                 {"cpu", kind == DeviceKind::kCpu}};
  for (const auto& [field, belongs] : fields) {
    if (reader.find(field) == nullptr) continue;
    if (!kind) return invalid(field, "describes a machine and needs the field platform");
    if (!belongs) {
      return invalid(field, fmt::format("does not describe a machine of platform {}", name(*kind)));
    }
  }
  return {};
}

Result<Platform> read_platform(const json::Value& object) {
  Reader reader(object);
  Platform platform;
  std::string kind;
  reader.get("platform", json::string, kind);
  if (!reader.ok()) return reader.error();
  if (reader.find("platform") == nullptr) {
    if (Status status = check_described(reader, std::nullopt); !status) return status.error();
    return this_platform();
  }
  const std::optional<DeviceKind> parsed = parse_device_kind(kind);
  if (!parsed) return invalid("platform", fmt::format("must be cuda, rocm or cpu, got '{}'", kind));
  platform.kind = *parsed;
  platform.simulated = true;
  Cpu cpu;
  std::optional<Capability> capability;
  reader.get("arch", json::string, platform.arch);
  reader.get("capability", read_capability, capability);
  reader.get("cpu", read_cpu, cpu);
  if (!reader.ok()) return reader.error();
  if (Status status = check_described(reader, parsed); !status) return status.error();
  if (platform.kind == DeviceKind::kCpu) {
    if (reader.find("cpu") == nullptr) return this_cpu_platform();
    platform.cpu = std::move(cpu);
    return platform;
  }
  platform.capability = capability;
  if (platform.kind == DeviceKind::kRocm && !object.contains("capability")) {
    platform.capability = capability_of(platform.arch);
  }
  return platform;
}

Result<Policy> read_policy(const json::Value& object) {
  Reader reader(object);
  Policy policy;
  std::string compat;
  reader.get("backend", json::string, policy.backend);
  reader.get("fallback", json::boolean, policy.fallback);
  reader.get("compat", json::string, compat);
  reader.get("disabled", json::strings, policy.disabled);
  reader.get("unloadable", json::strings, policy.unloadable);
  reader.get("not_installed", json::strings, policy.not_installed);
  if (reader.find("backend") != nullptr && policy.backend.empty()) {
    reader.fail(invalid("backend", "is empty; leave it out or null for the automatic choice"));
  }
  if (reader.find("compat") != nullptr && compat != "vllm") {
    reader.fail(invalid("compat", fmt::format("must be 'vllm', got '{}'", compat)));
  }
  if (!reader.ok()) return reader.error();
  if (compat == "vllm") policy.compat = Compat::kVllm;
  return policy;
}

Result<Problem> read_problem(const json::Value& object, Compat compat) {
  Reader reader(object);
  Problem problem;
  std::optional<ModelConfig> model;
  std::optional<MlaDims> dims;
  reader.get("model", read_model, model);
  reader.get("dims", read_dims, dims);
  if (reader.ok() && !model && !dims) {
    if (compat != Compat::kVllm) return invalid("dims", "or model is needed");
    // vLLM before it has a model: torch's default dtype and no dimensions.
    problem.dtype = DType::kFloat32;
  }
  if (model) problem = model->problem();
  if (dims) problem.dims = *dims;
  reader.get("dtype", read_dtype, problem.dtype);
  reader.get("num_heads", integer_in(1, kMaxDim), problem.num_heads);
  reader.get("kv_lora_rank", integer_in(1, kMaxDim), problem.kv_lora_rank);
  if (!reader.ok()) return reader.error();
  return problem;
}

}  // namespace

Result<Request> parse_request(std::string_view text) {
  const Result<json::Value> value = json::parse(text);
  if (!value) {
    return Error{ErrorCode::kInvalidRequest, "", "the request is " + value.error().message};
  }
  if (!value->is_object()) {
    return Error{ErrorCode::kInvalidRequest, "",
                 fmt::format("the request must be an object, got {}", json::type_name(*value))};
  }
  if (Status status = check_fields(*value, kFields, ""); !status) return status.error();
  Result<Policy> policy = read_policy(*value);
  if (!policy) return policy.error();
  Result<Problem> problem = read_problem(*value, policy->compat);
  if (!problem) return problem.error();
  Result<Platform> platform = read_platform(*value);
  if (!platform) return platform.error();
  return Request{*problem, std::move(*platform), std::move(*policy)};
}

std::string select_json(std::string_view text, Registry& registry) {
  const Result<Request> request = parse_request(text);
  if (!request) return to_json(request.error());
  return to_json(*select(request->problem, request->platform, request->policy, registry));
}

}  // namespace mla
