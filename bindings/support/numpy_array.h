#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <penstock/data_type.h>
#include <unistd.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

// Passes the engine's memory as numpy arrays, and numpy arrays as arguments, without copies.
//
// An array keeps a shared pointer to the owner of its bytes. A forked process inherits arrays whose
// owners need locks and threads that do not exist there, so it leaks these owners.

namespace penstock::python {

/// Keeps `owner` alive for the arrays that are made with it.
template <typename T>
nanobind::capsule keep_alive(std::shared_ptr<T> owner) {
  struct Held {
    std::shared_ptr<T> owner;
    pid_t process;
  };
  return nanobind::capsule(new Held{std::move(owner), getpid()}, [](void* pointer) noexcept {
    auto* held = static_cast<Held*>(pointer);
    if (held->process == getpid()) delete held;
  });
}

nanobind::dlpack::dtype dlpack_dtype(DataType type);

/// A C-contiguous, writable numpy array of `type` over `data`.
inline nanobind::object numpy_array(const void* data, std::initializer_list<size_t> shape,
                                    DataType type, const nanobind::object& owner) {
  nanobind::ndarray<nanobind::numpy> array(const_cast<void*>(data), shape, owner, {},
                                           dlpack_dtype(type));
  return nanobind::cast(array);
}

/// A contiguous one-dimensional array passed from Python, alive for the call.
template <typename T>
using Vector =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T>
std::span<const T> span_of(const Vector<T>& array) {
  return {array.data(), array.size()};
}

template <typename T>
std::vector<T> copy_of(const Vector<T>& array) {
  return std::vector<T>(array.data(), array.data() + array.size());
}

}  // namespace penstock::python
