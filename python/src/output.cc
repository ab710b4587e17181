// New tensors for results: of the library that the inputs are from.
#include <cstdlib>
#include <utility>

#include "names.h"
#include "tensor.h"

namespace mla::python {

nb::object empty_torch(nb::handle like, const nb::tuple& shape, Element element);
nb::object empty_numpy(nb::handle like, const nb::tuple& shape, Element element);

namespace {

nb::dlpack::dtype dlpack_dtype(Element element) {
  using Code = nb::dlpack::dtype_code;
  const auto make = [](Code code, int bits) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  };
  switch (element) {
    case Element::kFloat16:
      return make(Code::Float, 16);
    case Element::kBFloat16:
      return make(Code::Bfloat, 16);
    case Element::kFloat64:
      return make(Code::Float, 64);
    default:
      return make(Code::Float, 32);
  }
}

nb::tuple to_tuple(const std::vector<std::int64_t>& shape) {
  nb::list list;
  for (const std::int64_t size : shape) list.append(nb::int_(static_cast<long long>(size)));
  return nb::tuple(list);
}

// Memory of our own behind DLPack and the buffer protocol.
nb::object empty_owned(const std::vector<std::int64_t>& shape, Element element, int swapped_axis) {
  const nb::dlpack::dtype dtype = dlpack_dtype(element);
  std::vector<std::size_t> sizes(shape.begin(), shape.end());
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t elements = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = elements;
    elements *= shape[i];
  }
  const std::size_t bytes = static_cast<std::size_t>(elements) * (dtype.bits / 8U);
  if (swapped_axis >= 0) {
    std::swap(sizes[swapped_axis], sizes[swapped_axis + 1]);
    std::swap(strides[swapped_axis], strides[swapped_axis + 1]);
  }
  void* memory = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (memory == nullptr) throw std::bad_alloc();
  const nb::capsule owner(memory, [](void* pointer) noexcept { std::free(pointer); });
  return nb::cast(nb::ndarray<nb::array_api>(memory, sizes.size(), sizes.data(), owner,
                                             strides.data(), dtype, nb::device::cpu::value));
}

}  // namespace

nb::object empty_like_kind(nb::handle like, const std::vector<std::int64_t>& shape, Element element,
                           int swapped_axis) {
  const nb::tuple sizes = to_tuple(shape);
  nb::object result = empty_torch(like, sizes, element);
  const char* swap = "transpose";
  if (!result.is_valid()) {
    result = empty_numpy(like, sizes, element);
    swap = "swapaxes";
  }
  if (!result.is_valid()) return empty_owned(shape, element, swapped_axis);
  return swapped_axis < 0 ? result : result.attr(swap)(swapped_axis, swapped_axis + 1);
}

nb::object as_kind_of(nb::handle like, const nb::object& array) {
  if (nb::hasattr(array, "__array_namespace__") || nb::hasattr(array, "data_ptr") ||
      !nb::hasattr(like, "__array_namespace__")) {
    return array;
  }
  // After the numbers are in: from_dlpack may copy.
  return like.attr("__array_namespace__")().attr("from_dlpack")(array);
}

}  // namespace mla::python
