// Plug-in libraries: a table of C functions (mla/plugin.h) becomes a row. Whatever is wrong with a
// library is an Error here or a reason of its row. This file includes mla/attention.h because the
// row it makes runs; builtin.cc is the other one.
#include "mla/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "mla/attention.h"
#include "mla/registry.h"

namespace mla {
namespace {

static_assert(MLA_PLUGIN_FLOAT32 == static_cast<int>(DType::kFloat32));
static_assert(MLA_PLUGIN_FLOAT16 == static_cast<int>(DType::kFloat16));
static_assert(MLA_PLUGIN_BFLOAT16 == static_cast<int>(DType::kBFloat16));

constexpr const char* kSymbol = "mla_plugin";

// The library and its table; unloaded when the last row that uses it is gone.
class Library {
 public:
  Library(void* handle, const mla_plugin_api& api) : handle_(handle), api_(api) {}
  ~Library() { ::dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const mla_plugin_api& api() const { return api_; }

 private:
  void* handle_;
  const mla_plugin_api& api_;
};

// A buffer for the library's words.
class Message {
 public:
  mla_plugin_message* get() { return &message_; }
  // What it said, or what its status means where it said nothing.
  std::string text(std::int32_t status) {
    buffer_.back() = '\0';
    if (buffer_[0] != '\0') return buffer_.data();
    return fmt::format("status {} without a message", status);
  }

 private:
  std::array<char, 512> buffer_{};
  mla_plugin_message message_{buffer_.data(), buffer_.size()};
};

// Calls a function of the library; an exception, though forbidden, ends here.
template <class Call>
std::int32_t guarded(Message& message, Call call) {
  try {
    return call();
  } catch (...) {
    std::strncpy(message.get()->text, "threw an exception", message.get()->capacity);
    return MLA_PLUGIN_FAILED;
  }
}

ErrorCode code_of(std::int32_t status) {
  if (status == MLA_PLUGIN_UNSUPPORTED) return ErrorCode::kUnsupported;
  if (status == MLA_PLUGIN_OUT_OF_MEMORY) return ErrorCode::kOutOfMemory;
  return ErrorCode::kBackendFailed;
}

// ---- Running ------------------------------------------------------------------------------------

struct Threads {
  Executor& executor;
  mla_plugin_threads face;

  Threads(Executor& executor, int num_threads)
      : executor(executor),
        face{sizeof face, this, num_threads > 0 ? num_threads : executor.concurrency(), &run} {}

  static void run(void* self, std::int32_t workers, void (*body)(void*, std::int32_t),
                  void* context) {
    if (workers > 0) static_cast<Threads*>(self)->executor.run(workers, body, context);
  }
};

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

mla_plugin_tensor to_c(const attention::ConstRows& rows) {
  return {const_cast<void*>(rows.data), rows.token_stride, rows.head_stride, rows.request_offsets};
}

mla_plugin_tensor to_c(const attention::Rows& rows) {
  return {rows.data, rows.token_stride, rows.head_stride, rows.request_offsets};
}

class PluginImplementation final : public attention::Implementation {
 public:
  explicit PluginImplementation(std::shared_ptr<const Library> library)
      : library_(std::move(library)) {}

  attention::Traits traits() const override {
    const mla_plugin_traits& said = library_->api().traits;
    attention::Traits traits;
    if (said.lse_tokens_first != 0) traits.lse_layout = attention::LseLayout::kTokensHeads;
    if (said.lse_base_2 != 0) traits.lse_base = attention::LseBase::k2;
    traits.empty_row_lse = said.empty_row_lse;
    traits.needs_contiguous_v = said.needs_contiguous_v != 0;
    traits.pads_v = said.pads_v != 0;
    traits.alignment = said.alignment;
    traits.max_tokens = said.max_tokens;
    return traits;
  }

  Status attend(const attention::Args& args, const attention::RunOptions& options) const override;

 private:
  Error error(std::string_view function, std::int32_t status, Message& message) const {
    return {code_of(status), "",
            fmt::format("{}: {}: {}", library_->api().row.backend, function, message.text(status))};
  }

  Status run(const mla_plugin_batch& batch, const mla_plugin_tensors& tensors,
             const attention::RunOptions& options) const;
  Status run_planned(void* plan, std::size_t workspace_bytes, const mla_plugin_batch& batch,
                     const mla_plugin_tensors& tensors, const attention::RunOptions& options) const;

  std::shared_ptr<const Library> library_;
};

Status PluginImplementation::attend(const attention::Args& args,
                                    const attention::RunOptions& options) const {
  std::vector<std::int64_t> cu_seqlens_q;
  std::vector<std::int64_t> cu_seqlens_k;
  for (std::int64_t r = 0; r <= args.num_requests; ++r) {
    cu_seqlens_q.push_back(args.cu_seqlens_q[r]);
    cu_seqlens_k.push_back(args.cu_seqlens_k[r]);
  }
  const mla_plugin_batch batch{sizeof batch,
                               args.num_requests,
                               args.num_heads,
                               args.total_q,
                               args.total_k,
                               args.qk_head_dim,
                               args.v_head_dim,
                               static_cast<std::int32_t>(args.dtype),
                               static_cast<std::int32_t>(args.out_dtype),
                               args.causal ? 1 : 0,
                               args.scale,
                               cu_seqlens_q.data(),
                               cu_seqlens_k.data(),
                               args.causal_offsets};
  const std::int64_t lse_stride = args.lse_head_stride != 0 ? args.lse_head_stride : args.total_q;
  const mla_plugin_tensors tensors{sizeof tensors, to_c(args.q), to_c(args.k), to_c(args.v),
                                   to_c(args.out), args.lse,     lse_stride};
  return run(batch, tensors, options);
}

Status PluginImplementation::run(const mla_plugin_batch& batch, const mla_plugin_tensors& tensors,
                                 const attention::RunOptions& options) const {
  const mla_plugin_api& api = library_->api();
  if (api.supports != nullptr) {
    Message message;
    const std::int32_t status =
        guarded(message, [&] { return api.supports(&batch, message.get()); });
    if (status != MLA_PLUGIN_OK) return error("supports", status, message);
  }
  void* plan = nullptr;
  std::size_t workspace_bytes = 0;
  if (api.plan != nullptr) {
    Message message;
    const std::int32_t status =
        guarded(message, [&] { return api.plan(&batch, &plan, &workspace_bytes, message.get()); });
    if (status != MLA_PLUGIN_OK) return error("plan", status, message);
  }
  Status status = run_planned(plan, workspace_bytes, batch, tensors, options);
  if (api.destroy != nullptr) {
    Message message;
    guarded(message, [&] {
      api.destroy(plan);
      return MLA_PLUGIN_OK;
    });
  }
  return status;
}

Status PluginImplementation::run_planned(void* plan, std::size_t workspace_bytes,
                                         const mla_plugin_batch& batch,
                                         const mla_plugin_tensors& tensors,
                                         const attention::RunOptions& options) const {
  constexpr std::size_t kAlignment = 64;
  std::unique_ptr<void, FreeDeleter> workspace;
  if (workspace_bytes > 0) {
    const std::size_t rounded = (workspace_bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded >= workspace_bytes) workspace.reset(std::aligned_alloc(kAlignment, rounded));
    if (workspace == nullptr) {
      return Error{ErrorCode::kOutOfMemory, "",
                   fmt::format("{}: its workspace of {} bytes cannot be allocated",
                               library_->api().row.backend, workspace_bytes)};
    }
  }
  Threads threads(options.executor != nullptr ? *options.executor : default_executor(),
                  options.num_threads);
  Message message;
  const std::int32_t status = guarded(message, [&] {
    return library_->api().run(plan, &batch, &tensors, &threads.face, workspace.get(), nullptr,
                               message.get());
  });
  if (status != MLA_PLUGIN_OK) return error("run", status, message);
  return {};
}

// ---- Describing ---------------------------------------------------------------------------------

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

std::vector<std::string> texts(const char* const* list, std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; list != nullptr && i < count; ++i) out.push_back(text_or_empty(list[i]));
  std::ranges::sort(out);
  return out;
}

Requirements requirements_of(const mla_plugin_row& row) {
  Requirements needs;
  if ((row.devices & MLA_PLUGIN_CUDA) != 0) needs.devices.push_back(DeviceKind::kCuda);
  if ((row.devices & MLA_PLUGIN_ROCM) != 0) needs.devices.push_back(DeviceKind::kRocm);
  if ((row.devices & MLA_PLUGIN_CPU) != 0) needs.devices.push_back(DeviceKind::kCpu);
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    if ((row.dtypes >> static_cast<int>(dtype) & 1u) != 0) needs.dtypes.push_back(dtype);
  }
  if (row.min_capability_major > 0 || row.max_capability_major > 0) {
    needs.capabilities.push_back({row.min_capability_major, row.max_capability_major > 0
                                                                ? row.max_capability_major
                                                                : std::numeric_limits<int>::max()});
  }
  needs.archs = texts(row.archs, row.num_archs);
  needs.isa = texts(row.cpu_isa, row.num_cpu_isa);
  for (std::size_t i = 0; row.dims != nullptr && i < row.num_dims; ++i) {
    needs.dims.push_back(
        {row.dims[i].qk_nope_head_dim, row.dims[i].qk_rope_head_dim, row.dims[i].v_head_dim});
  }
  needs.max_head_dim = row.max_head_dim;
  return needs;
}

std::uint32_t bit_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCuda:
      return MLA_PLUGIN_CUDA;
    case DeviceKind::kRocm:
      return MLA_PLUGIN_ROCM;
    case DeviceKind::kCpu:
      return MLA_PLUGIN_CPU;
  }
  return 0;
}

// The answer of the library's probe about this machine; empty: it can run.
std::string probe(const Library& library) {
  const mla_plugin_api& api = library.api();
  const Machine& machine = this_machine();
  std::vector<const char*> isa;
  for (const std::string& feature : machine.cpu.isa) isa.push_back(feature.c_str());
  mla_plugin_host host{sizeof host, 0,         -1, -1, "", machine.cpu.vendor.c_str(),
                       isa.data(),  isa.size()};
  if ((api.row.devices & MLA_PLUGIN_CPU) != 0) host.device = MLA_PLUGIN_CPU;
  for (const GpuDevice& gpu : machine.gpus) {
    if ((api.row.devices & bit_of(gpu.kind)) == 0) continue;
    host.device = bit_of(gpu.kind);
    host.capability_major = gpu.capability ? gpu.capability->major : -1;
    host.capability_minor = gpu.capability ? gpu.capability->minor : -1;
    host.arch = gpu.arch.c_str();
    break;
  }
  Message message;
  const std::int32_t status = guarded(message, [&] { return api.probe(&host, message.get()); });
  return status == MLA_PLUGIN_OK ? "" : message.text(status);
}

// ---- Loading ------------------------------------------------------------------------------------

// What is wrong with a table before anything of it is used; empty: nothing.
std::string fault_of(const mla_plugin_api* api) {
  if (api == nullptr) return fmt::format("{}() returned no table", kSymbol);
  const auto short_struct = [](std::string_view name, std::size_t got, std::size_t wanted) {
    return fmt::format("struct_size of {} is {}, at least {} is needed", name, got, wanted);
  };
  if (api->struct_size < sizeof *api) {
    return short_struct("mla_plugin_api", api->struct_size, sizeof *api);
  }
  if (api->abi_version != MLA_PLUGIN_ABI_VERSION) {
    return fmt::format("its abi_version is {}, this library speaks {}", api->abi_version,
                       int{MLA_PLUGIN_ABI_VERSION});
  }
  // Embedded structs cannot grow without a new version.
  if (api->row.struct_size != sizeof api->row) {
    return short_struct("mla_plugin_row", api->row.struct_size, sizeof api->row);
  }
  if (api->traits.struct_size != sizeof api->traits) {
    return short_struct("mla_plugin_traits", api->traits.struct_size, sizeof api->traits);
  }
  if (api->run == nullptr) return "it has no run function";
  if (api->row.backend == nullptr) return "its row has no backend name";
  if (api->row.devices == 0) return "its row names no device";
  const std::int64_t alignment = api->traits.alignment;
  if (alignment < 0 || (alignment > 0 && !std::has_single_bit(std::uint64_t(alignment)))) {
    return fmt::format("its alignment {} is not a power of two", alignment);
  }
  if (api->traits.max_tokens < 0) {
    return fmt::format("its max_tokens {} is negative", api->traits.max_tokens);
  }
  return "";
}

Error not_loadable(const std::string& path, std::string_view why) {
  return {ErrorCode::kNotLoadable, "path", fmt::format("plug-in {}: {}", path, why)};
}

}  // namespace

Result<Row> plugin_row(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* said = ::dlerror();
    return not_loadable(path, said != nullptr ? said : "cannot be opened");
  }
  const auto fail = [&](std::string_view why) {
    Error error = not_loadable(path, why);
    ::dlclose(handle);
    return error;
  };
  const auto function = reinterpret_cast<mla_plugin_function>(::dlsym(handle, kSymbol));
  if (function == nullptr) return fail(fmt::format("it exports no {}()", kSymbol));
  const mla_plugin_api* api = nullptr;
  Message message;
  const std::int32_t status = guarded(message, [&] {
    api = function();
    return MLA_PLUGIN_OK;
  });
  if (status != MLA_PLUGIN_OK) return fail(message.text(status));
  if (const std::string fault = fault_of(api); !fault.empty()) return fail(fault);

  auto library = std::make_shared<const Library>(handle, *api);
  Row row;
  row.backend = api->row.backend;
  row.variant = text_or_empty(api->row.variant);
  row.description = text_or_empty(api->row.description);
  row.needs = requirements_of(api->row);
  if (api->probe != nullptr) row.probe_library = [library] { return probe(*library); };
  row.implementation = std::make_shared<const PluginImplementation>(std::move(library));
  return row;
}

Result<std::string> load_plugin(const std::string& path, Registry& registry) {
  Result<Row> row = plugin_row(path);
  if (!row) return row.error();
  std::string name = row->full_name();
  Status status = registry.add(std::move(*row));
  if (status) return name;
  Error error = status.error();
  error.message = fmt::format("plug-in {}: {}", path, error.message);
  return error;
}

}  // namespace mla
