#include "tensor.h"

#include <nanobind/stl/string.h>

namespace mla::python {
namespace {

constexpr const char* kNames[] = {"float32", "float16", "bfloat16", "float64", "int32",
                                  "int64",   "uint8",   "bool",     ""};

std::string dlpack_name(nb::dlpack::dtype dtype) {
  static const char* const kKinds[] = {"int",    "uint",    "float", "opaque",
                                       "bfloat", "complex", "bool"};
  const std::string kind =
      dtype.code < 7 ? kKinds[dtype.code] : "type" + std::to_string(dtype.code);
  return kind + std::to_string(dtype.bits);
}

Element dlpack_element(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  if (dtype.lanes != 1) return Element::kOther;
  switch (static_cast<Code>(dtype.code)) {
    case Code::Float:
      return dtype.bits == 32   ? Element::kFloat32
             : dtype.bits == 16 ? Element::kFloat16
             : dtype.bits == 64 ? Element::kFloat64
                                : Element::kOther;
    case Code::Bfloat:
      return dtype.bits == 16 ? Element::kBFloat16 : Element::kOther;
    case Code::Int:
      return dtype.bits == 32   ? Element::kInt32
             : dtype.bits == 64 ? Element::kInt64
                                : Element::kOther;
    case Code::UInt:
      return dtype.bits == 8 ? Element::kUInt8 : Element::kOther;
    case Code::Bool:
      return dtype.bits == 8 ? Element::kBool : Element::kOther;
    default:
      return Element::kOther;
  }
}

// DLPack, the buffer protocol, or whatever else nanobind knows.
bool read_exchange(nb::handle object, Access access, Tensor& tensor) {
  nb::ndarray<nb::ro> view;
  if (access == Access::kWrite) {
    nb::ndarray<> writable;
    if (!nb::try_cast(object, writable, false)) {
      tensor.read_only = nb::try_cast(object, view, false);
      if (!tensor.read_only) return false;
    } else {
      view = nb::ndarray<nb::ro>(writable);
    }
  } else if (!nb::try_cast(object, view, false)) {
    return false;
  }
  if (view.ndim() > kMaxNdim) {
    bad_value(tensor.argument, "at most 8 dimensions", std::to_string(view.ndim()));
  }
  if (view.device_type() != nb::device::cpu::value) {
    bad_value(tensor.argument, "a tensor in the CPU's memory",
              "DLPack device type " + std::to_string(view.device_type()));
  }
  tensor.data = const_cast<void*>(view.data());
  tensor.element = dlpack_element(view.dtype());
  if (tensor.element == Element::kOther) tensor.type_name = dlpack_name(view.dtype());
  tensor.ndim = static_cast<int>(view.ndim());
  for (int i = 0; i < tensor.ndim; ++i) {
    tensor.shape[i] = static_cast<std::int64_t>(view.shape(i));
    tensor.strides[i] = view.stride(i);
  }
  tensor.view = std::move(view);
  return true;
}

// What a dimension of size 1 has as a stride means nothing, but would be checked.
void normalise_strides(Tensor& tensor) {
  std::int64_t next = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] <= 1) tensor.strides[i] = next;
    if (tensor.shape[i] > 1 && tensor.strides[i] >= next) {
      next = tensor.strides[i] * tensor.shape[i];
    }
  }
}

void read_sequence(nb::handle object, const char* argument, Integers& integers) {
  for (nb::handle item : nb::cast<nb::sequence>(object)) {
    const long long value = PyLong_Check(item.ptr()) ? PyLong_AsLongLong(item.ptr()) : 0;
    if (!PyLong_Check(item.ptr()) || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      bad_type(argument, "64-bit integers", nb::cast<std::string>(nb::repr(item)));
    }
    integers.copy.push_back(value);
  }
  integers.size = static_cast<std::int64_t>(integers.copy.size());
  integers.copy.reserve(1);  // not null, also when it is empty
  integers.wide = integers.copy.data();
}

}  // namespace

std::string Tensor::dtype_name() const {
  return element == Element::kOther ? type_name : kNames[static_cast<int>(element)];
}

std::string Tensor::shape_text() const {
  std::string text = "(";
  for (int i = 0; i < ndim; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + (ndim == 1 ? ",)" : ")");
}

DType Tensor::float_type() const {
  switch (element) {
    case Element::kFloat32:
      return DType::kFloat32;
    case Element::kFloat16:
      return DType::kFloat16;
    case Element::kBFloat16:
      return DType::kBFloat16;
    default:
      bad_type(argument, "float32, float16 or bfloat16", dtype_name());
  }
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return Element::kFloat32;
    case DType::kFloat16:
      return Element::kFloat16;
    case DType::kBFloat16:
      return Element::kBFloat16;
    default:
      return Element::kOther;
  }
}

DType dtype_of(nb::handle object, const char* argument) {
  const std::string text = nb::cast<std::string>(
      PyType_Check(object.ptr()) ? nb::object(object.attr("__name__")) : nb::str(object));
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype.has_value()) {
    bad_value(argument, "float32, float16, bfloat16 or float8_e4m3", "'" + text + "'");
  }
  return *dtype;
}

Tensor tensor(nb::handle object, const char* argument, Access access) {
  Tensor result;
  result.argument = argument;
  if (!read_torch(object, result) && !read_numpy(object, result) &&
      !read_exchange(object, access, result)) {
    bad_type(argument, "a tensor (torch, numpy, DLPack or the buffer protocol)", kind_of(object));
  }
  if (access == Access::kWrite && result.read_only) {
    bad_value(argument, "a tensor that can be written", "a read-only one");
  }
  result.owner = nb::borrow(object);
  normalise_strides(result);
  return result;
}

Tensor tensor(nb::handle object, const char* argument, int ndim, const char* dims, Access access) {
  Tensor result = tensor(object, argument, access);
  if (result.ndim != ndim) {
    bad_value(argument, std::string("shape ") + dims, "shape " + result.shape_text());
  }
  if (ndim > 0 && result.strides[ndim - 1] != 1) {
    bad_value(argument, "a contiguous last dimension (stride 1)",
              "stride " + std::to_string(result.strides[ndim - 1]));
  }
  return result;
}

void read_integers(nb::handle object, const char* argument, Integers& integers) {
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    return read_sequence(object, argument, integers);
  }
  integers.tensor = tensor(object, argument, 1, "(n,)");
  integers.size = integers.tensor.shape[0];
  // An empty tensor may have no memory; its values are not looked at.
  static constexpr std::int64_t kNothing = 0;
  const void* data = integers.size == 0 ? &kNothing : integers.tensor.data;
  if (integers.tensor.element == Element::kInt32) {
    integers.narrow = static_cast<const std::int32_t*>(data);
  } else if (integers.tensor.element == Element::kInt64) {
    integers.wide = static_cast<const std::int64_t*>(data);
  } else {
    bad_type(argument, "int32 or int64", integers.tensor.dtype_name());
  }
}

void check_same_dtype(const Tensor& tensor, const Tensor& first) {
  if (tensor.element != first.element || tensor.type_name != first.type_name) {
    bad_type(tensor.argument,
             std::string("the dtype of ") + first.argument + ", " + first.dtype_name(),
             tensor.dtype_name());
  }
}

void check_size(const Tensor& tensor, int dimension, std::int64_t size, const char* why) {
  if (tensor.shape[dimension] != size) {
    bad_value(
        tensor.argument,
        std::to_string(size) + " in dimension " + std::to_string(dimension) + " (" + why + ")",
        "shape " + tensor.shape_text());
  }
}

}  // namespace mla::python
