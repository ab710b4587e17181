// Error codes as the machine-readable faces print them.
#include "mla/core.h"

namespace mla {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnknownBackend:
      return "unknown_backend";
    case ErrorCode::kExplicitInvalid:
      return "explicit_invalid";
    case ErrorCode::kNoneValid:
      return "none_valid";
    case ErrorCode::kInvalidRequest:
      return "invalid_request";
    case ErrorCode::kNotMla:
      return "not_mla";
    case ErrorCode::kMissingField:
      return "missing_field";
    case ErrorCode::kWrongType:
      return "wrong_type";
    case ErrorCode::kOutOfRange:
      return "out_of_range";
    case ErrorCode::kNotJson:
      return "not_json";
    case ErrorCode::kNotReadable:
      return "not_readable";
    case ErrorCode::kUnknownName:
      return "unknown_name";
    case ErrorCode::kAlreadyRegistered:
      return "already_registered";
    case ErrorCode::kInvalidName:
      return "invalid_name";
    case ErrorCode::kUnregistered:
      return "unregistered";
    case ErrorCode::kNotLoadable:
      return "not_loadable";
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kBackendFailed:
      return "backend_failed";
  }
  return "invalid";
}

}  // namespace mla
