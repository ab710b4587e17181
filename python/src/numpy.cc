// numpy arrays, those of ml_dtypes.bfloat16 included, which neither DLPack nor the buffer protocol
// carries.
#include <nanobind/stl/string.h>

#include "names.h"
#include "tensor.h"

namespace mla::python {
namespace {

struct Numpy {
  nb::object array;
  nb::object empty;
  nb::object dtypes[static_cast<int>(Element::kOther)];  // bfloat16: null until ml_dtypes is there
  Name interface { "__array_interface__" }, dtype{"dtype"};
};

constexpr const char* kNames[] = {"float32", "float16", "bfloat16", "float64",
                                  "int32",   "int64",   "uint8",    "bool"};

Numpy* load(const nb::object& module) {
  auto* numpy = new Numpy;  // as long as the process
  numpy->array = module.attr("ndarray");
  numpy->empty = module.attr("empty");
  for (int i = 0; i < static_cast<int>(Element::kOther); ++i) {
    if (static_cast<Element>(i) == Element::kBFloat16) continue;
    numpy->dtypes[i] = module.attr("dtype")(kNames[i]);
  }
  return numpy;
}

const Numpy* loaded() {
  static Numpy* numpy = nullptr;
  if (numpy == nullptr) {
    const nb::object module = imported("numpy");
    if (module.is_valid() && nb::hasattr(module, "ndarray") && nb::hasattr(module, "empty")) {
      numpy = load(module);
    }
  }
  const int bf16 = static_cast<int>(Element::kBFloat16);
  if (numpy != nullptr && !numpy->dtypes[bf16].is_valid()) {
    const nb::object module = imported("ml_dtypes");
    if (module.is_valid() && nb::hasattr(module, "bfloat16")) {
      numpy->dtypes[bf16] = nb::module_::import_("numpy").attr("dtype")(module.attr("bfloat16"));
    }
  }
  return numpy;
}

bool is_array(const Numpy& numpy, nb::handle object) { return nb::isinstance(object, numpy.array); }

Element element_of(const Numpy& numpy, const nb::object& dtype) {
  for (int i = 0; i < static_cast<int>(Element::kOther); ++i) {
    if (numpy.dtypes[i].is_valid() && numpy.dtypes[i].ptr() == dtype.ptr()) {
      return static_cast<Element>(i);
    }
  }
  for (int i = 0; i < static_cast<int>(Element::kOther); ++i) {  // equal, but another object
    if (numpy.dtypes[i].is_valid() && numpy.dtypes[i].equal(dtype)) return static_cast<Element>(i);
  }
  return Element::kOther;
}

std::int64_t integer(nb::handle value) { return PyLong_AsLongLong(value.ptr()); }

}  // namespace

bool read_numpy(nb::handle object, Tensor& tensor) {
  const Numpy* numpy = loaded();
  if (numpy == nullptr || !is_array(*numpy, object)) return false;
  const nb::object dtype = numpy->dtype.of(object);
  tensor.element = element_of(*numpy, dtype);
  if (tensor.element == Element::kOther) tensor.type_name = nb::cast<std::string>(nb::str(dtype));
  const nb::dict interface = nb::cast<nb::dict>(numpy->interface.of(object));
  const nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  tensor.data = PyLong_AsVoidPtr(nb::object(data[0]).ptr());
  tensor.read_only = nb::object(data[1]).ptr() == Py_True;
  const nb::tuple shape = nb::cast<nb::tuple>(interface["shape"]);
  if (shape.size() > kMaxNdim) {
    bad_value(tensor.argument, "at most 8 dimensions", nb::cast<std::string>(nb::str(shape)));
  }
  tensor.ndim = static_cast<int>(shape.size());
  for (int i = 0; i < tensor.ndim; ++i) tensor.shape[i] = integer(nb::object(shape[i]));
  const nb::object strides = interface["strides"];
  const std::int64_t bytes = integer(nb::object(dtype.attr("itemsize")));
  std::int64_t next = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (strides.is_none()) {
      tensor.strides[i] = next;
      next *= tensor.shape[i];
    } else {
      const std::int64_t stride = integer(nb::object(nb::cast<nb::tuple>(strides)[i]));
      if (stride % bytes != 0) {
        bad_value(tensor.argument, "strides that are whole elements",
                  nb::cast<std::string>(nb::str(strides)) + " bytes");
      }
      tensor.strides[i] = stride / bytes;
    }
  }
  return true;
}

nb::object empty_numpy(nb::handle like, const nb::tuple& shape, Element element) {
  const Numpy* numpy = loaded();
  if (numpy == nullptr || !is_array(*numpy, like)) return {};
  return numpy->empty(shape, numpy->dtypes[static_cast<int>(element)]);
}

}  // namespace mla::python
