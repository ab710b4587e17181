// torch tensors without importing torch: a tensor can only come from a torch that is there.
#include <nanobind/stl/string.h>

#include "names.h"
#include "tensor.h"

namespace mla::python {
namespace {

struct Torch {
  nb::object tensor;
  nb::object parameter;
  nb::object empty;
  nb::object is_grad_enabled;
  nb::object dtypes[static_cast<int>(Element::kOther)];
  Name data_ptr{"data_ptr"}, stride{"stride"}, shape{"shape"}, dtype{"dtype"}, is_cpu{"is_cpu"},
      device{"device"}, requires_grad{"requires_grad"};
};

Torch* load(const nb::object& module) {
  auto* torch = new Torch;  // as long as the process
  torch->tensor = module.attr("Tensor");
  torch->parameter = module.attr("nn").attr("Parameter");
  torch->empty = module.attr("empty");
  torch->is_grad_enabled = module.attr("is_grad_enabled");
  const char* const names[] = {"float32", "float16", "bfloat16", "float64",
                               "int32",   "int64",   "uint8",    "bool"};
  for (int i = 0; i < static_cast<int>(Element::kOther); ++i) {
    torch->dtypes[i] = module.attr(names[i]);
  }
  return torch;
}

const Torch* loaded() {
  static const Torch* torch = nullptr;
  if (torch == nullptr) {
    const nb::object module = imported("torch");
    // A torch that is still being imported has no tensors yet.
    if (module.is_valid() && nb::hasattr(module, "nn") &&
        nb::hasattr(module.attr("nn"), "Parameter")) {
      torch = load(module);
    }
  }
  return torch;
}

bool is_tensor(const Torch& torch, nb::handle object) {
  const PyObject* type = reinterpret_cast<const PyObject*>(Py_TYPE(object.ptr()));
  return type == torch.tensor.ptr() || type == torch.parameter.ptr();
}

// Sizes and strides, from a tuple of integers.
void read_tuple(const nb::object& tuple, std::array<std::int64_t, kMaxNdim>& values) {
  const Py_ssize_t size = PyTuple_Size(tuple.ptr());
  for (Py_ssize_t i = 0; i < size; ++i) {
    values[static_cast<std::size_t>(i)] = PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), i));
  }
}

}  // namespace

nb::object imported(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  return nb::borrow(PyDict_GetItemString(modules, name));
}

bool read_torch(nb::handle object, Tensor& tensor) {
  const Torch* torch = loaded();
  if (torch == nullptr || !is_tensor(*torch, object)) return false;
  if (torch->is_cpu.of(object).ptr() != Py_True) {
    bad_value(tensor.argument, "a tensor in the CPU's memory",
              "device " + nb::cast<std::string>(nb::str(torch->device.of(object))));
  }
  if (torch->requires_grad.of(object).ptr() == Py_True &&
      torch->is_grad_enabled().ptr() == Py_True) {
    bad_value(tensor.argument, "a tensor without gradient (detach it, or use torch.no_grad())",
              "one that requires grad");
  }
  const nb::object shape = torch->shape.of(object);
  if (PyTuple_Size(shape.ptr()) > kMaxNdim) {
    bad_value(tensor.argument, "at most 8 dimensions", nb::cast<std::string>(nb::str(shape)));
  }
  tensor.ndim = static_cast<int>(PyTuple_Size(shape.ptr()));
  read_tuple(shape, tensor.shape);
  read_tuple(torch->stride.call(object), tensor.strides);
  tensor.data = PyLong_AsVoidPtr(torch->data_ptr.call(object).ptr());
  const nb::object dtype = torch->dtype.of(object);
  int i = 0;
  while (i < static_cast<int>(Element::kOther) && torch->dtypes[i].ptr() != dtype.ptr()) ++i;
  tensor.element = static_cast<Element>(i);
  if (tensor.element == Element::kOther) tensor.type_name = nb::cast<std::string>(nb::str(dtype));
  return true;
}

nb::object empty_torch(nb::handle like, const nb::tuple& shape, Element element) {
  const Torch* torch = loaded();
  if (torch == nullptr || !nb::isinstance(like, torch->tensor)) return {};
  return torch->empty(shape, nb::arg("dtype") = torch->dtypes[static_cast<int>(element)]);
}

}  // namespace mla::python
