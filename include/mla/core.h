// What every layer speaks: element types, MLA dimensions, errors as values, log lines, threads.
//
// The library never prints, throws across its face, aborts or exits: what can fail returns a
// Result, and what it has to say goes to the caller's log sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#if defined(__GNUC__)
#define MLA_API __attribute__((visibility("default")))
#else
#define MLA_API
#endif

namespace mla {

// "0.1.0"
MLA_API std::string_view version();

// ---- Element types ------------------------------------------------------------------------------
enum class DType : std::uint8_t { kFloat32, kFloat16, kBFloat16, kFloat8E4M3 };

// "float32", "float16", "bfloat16", "float8_e4m3"
MLA_API std::string_view name(DType dtype);
// Accepts the names above, the aliases f32 fp32 float / f16 fp16 half / bf16 / fp8_e4m3
// float8_e4m3fn, and each of them behind "torch.".
MLA_API std::optional<DType> parse_dtype(std::string_view text);
// Bytes of one element.
MLA_API std::int64_t size_of(DType dtype);

// ---- MLA dimensions -----------------------------------------------------------------------------
// The head dimensions of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct MlaDims {
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;

  constexpr std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  friend bool operator==(const MlaDims&, const MlaDims&) = default;
};

// "(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)"
MLA_API std::string to_string(const MlaDims& dims);

// ---- Errors -------------------------------------------------------------------------------------
enum class ErrorCode : std::uint8_t {
  // selection
  kUnknownBackend,
  kExplicitInvalid,
  kNoneValid,
  kInvalidRequest,
  // model configuration
  kNotMla,
  kMissingField,
  kWrongType,
  kOutOfRange,
  kNotJson,
  kNotReadable,
  // registry
  kUnknownName,
  kAlreadyRegistered,
  kInvalidName,
  kUnregistered,
  kNotLoadable,
  // attention, prefill
  kInvalidArgument,
  kUnsupported,
  kOutOfMemory,
  kBackendFailed,
};

// "unknown_backend", "explicit_invalid", ...: the code as the machine-readable faces print it.
MLA_API std::string_view name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string field;    // the argument or configuration field at fault; empty when there is none
  std::string message;  // one sentence that names the argument, what was got and what was wanted

  friend bool operator==(const Error&, const Error&) = default;
};

// A value or the Error that kept it from being made.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only when ok().
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Only when not ok().
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

// Success, or the Error that prevented it.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // Only when not ok().
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// ---- Log lines ----------------------------------------------------------------------------------
enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning };
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Where log lines go from now on; an empty sink (the default) drops them. Thread-safe. The sink may
// be called from any thread, from several at once, and may call back into the library.
MLA_API void set_log_sink(LogSink sink);
// Hands a line to the sink, at most once per process for the same level and text. A line that found
// no sink has not been said and is still to come.
MLA_API void log_once(LogLevel level, std::string_view text);

// ---- Threads ------------------------------------------------------------------------------------
// Runs one body on several workers. An engine with a thread pool of its own implements this.
class MLA_API Executor {
 public:
  using Body = void (*)(void* context, int worker);

  virtual ~Executor() = default;
  // How many workers are worth asking for, >= 1.
  virtual int concurrency() const = 0;
  // Calls body(context, w) once for every w in [0, workers), in any order, on any threads, also one
  // after the other; returns when all have returned. The library never makes a worker wait for one
  // that has not started.
  virtual void run(int workers, Body body, void* context) = 0;

  // run() with a callable taking the worker's number.
  template <class F>
  void for_each_worker(int workers, F&& f) {
    using Callable = std::remove_reference_t<F>;
    run(
        workers, [](void* context, int worker) { (*static_cast<Callable*>(context))(worker); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
};

// The process's OpenMP team (shared with PyTorch's when that is libgomp); with MLA_OPENMP=OFF,
// threads started for each call. Never pins a thread.
MLA_API Executor& default_executor();
// Everything on the calling thread.
MLA_API Executor& serial_executor();

}  // namespace mla
