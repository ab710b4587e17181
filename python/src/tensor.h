// Tensors of the caller, read and written in place: torch and numpy by their own attributes (a
// third of a microsecond each, and bfloat16 of numpy, which DLPack does not carry), everything else
// through DLPack or the buffer protocol.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "errors.h"
#include "mla/attention.h"
#include "mla/core.h"

namespace mla::python {

// The element types that occur; kOther has its name in Tensor::type_name.
enum class Element : std::uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat64,
  kInt32,
  kInt64,
  kUInt8,
  kBool,
  kOther
};

constexpr int kMaxNdim = 8;

struct Tensor {
  const char* argument = "";  // its name, for messages
  void* data = nullptr;
  Element element = Element::kOther;
  std::string type_name;  // of kOther
  int ndim = 0;
  std::array<std::int64_t, kMaxNdim> shape{};
  std::array<std::int64_t, kMaxNdim> strides{};  // in elements
  bool read_only = false;
  nb::object owner;          // keeps the memory alive
  nb::ndarray<nb::ro> view;  // what a DLPack exchange lent

  std::string dtype_name() const;
  std::string shape_text() const;
  // float32, float16 or bfloat16, else a TypeError.
  DType float_type() const;
};

enum class Access { kRead, kWrite };

// TypeError for what is no tensor; ValueError for one that is not in this process's memory, needs a
// gradient or cannot be written. Strides of dimensions of size 1 are those of a contiguous tensor.
Tensor tensor(nb::handle object, const char* argument, Access access = Access::kRead);
// The same with a given number of dimensions, the last one contiguous; `dims` names them.
Tensor tensor(nb::handle object, const char* argument, int ndim, const char* dims,
              Access access = Access::kRead);

// One way in each: false where the object is not of that kind.
bool read_torch(nb::handle object, Tensor& tensor);
bool read_numpy(nb::handle object, Tensor& tensor);

// A new tensor for a result: torch's or numpy's where `like` is one, else memory of our own, which
// as_kind_of() hands to the library of `like` once it is filled (array API standard, from_dlpack).
// With swapped_axis the result is a view of that memory with this axis and the next one swapped.
nb::object empty_like_kind(nb::handle like, const std::vector<std::int64_t>& shape, Element element,
                           int swapped_axis = -1);
nb::object as_kind_of(nb::handle like, const nb::object& array);
Element element_of(DType dtype);
// From a name, a torch or numpy dtype, or a scalar type; ValueError otherwise.
DType dtype_of(nb::handle object, const char* argument);

// Integers of a tensor (int32 or int64, one dimension) or of a Python sequence.
struct Integers {
  attention::CuSeqlens values() const {
    return narrow != nullptr ? attention::CuSeqlens(narrow) : attention::CuSeqlens(wide);
  }
  std::int64_t size = 0;
  const std::int32_t* narrow = nullptr;
  const std::int64_t* wide = nullptr;
  std::vector<std::int64_t> copy;  // of a sequence
  Tensor tensor;
};
void read_integers(nb::handle object, const char* argument, Integers& integers);

// TypeError unless both have one dtype.
void check_same_dtype(const Tensor& tensor, const Tensor& first);
// ValueError unless the dimension has this size.
void check_size(const Tensor& tensor, int dimension, std::int64_t size, const char* why);

}  // namespace mla::python
