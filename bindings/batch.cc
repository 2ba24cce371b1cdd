#include <nanobind/stl/optional.h>
#include <penstock/error.h>
#include <penstock/loader.h>

#include <string>

#include "register.h"
#include "support/loader_handle.h"
#include "support/numpy_array.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

/// (indptr, indices, data) as views of the batch's memory.
nb::tuple csr(const BatchHandle& self) {
  const Batch& batch = *self.batch;
  const Batch::Csr csr = batch.csr();
  const nb::capsule owner = keep_alive(self.batch);
  return nb::make_tuple(
      numpy_array(csr.indptr.data(), {csr.indptr.size()}, DataType::kInt32, owner),
      numpy_array(csr.indices.data(), {csr.indices.size()}, DataType::kInt32, owner),
      numpy_array(csr.data, {batch.nnz()}, batch.dtype(), owner));
}

nb::object dense(const BatchHandle& self) {
  const Batch& batch = *self.batch;
  return numpy_array(batch.dense(), {batch.rows(), batch.columns()}, batch.dtype(),
                     keep_alive(self.batch));
}

nb::object joinids(const BatchHandle& self) {
  const auto joinids = self.batch->joinids();
  return numpy_array(joinids.data(), {joinids.size()}, DataType::kInt64, keep_alive(self.batch));
}

nb::object lengths(const BatchHandle& self) {
  const auto lengths = self.batch->lengths();
  return numpy_array(lengths.data(), {lengths.size()}, DataType::kInt32, keep_alive(self.batch));
}

nb::object missing(const BatchHandle& self) {
  const auto missing = self.batch->missing();
  return numpy_array(missing.data(), {missing.size()}, DataType::kUInt8, keep_alive(self.batch));
}

BatchHandle part(const BatchHandle& self, size_t index) {
  if (index >= self.batch->part_count()) {
    throw InvalidArgument("a batch has " + std::to_string(self.batch->part_count()) +
                          " parts, got part " + std::to_string(index));
  }
  return BatchHandle(self.batch->part(index));
}

nb::object positions(const BatchHandle& self) {
  const auto positions = self.batch->positions();
  return numpy_array(positions.data(), {positions.size()}, DataType::kInt64,
                     keep_alive(self.batch));
}

}  // namespace

void register_batch(nb::module_& module) {
  nb::class_<BatchHandle>(module, "Batch", "One mini-batch; its arrays share its memory.")
      .def_prop_ro("rows", [](const BatchHandle& self) { return self.batch->rows(); })
      .def_prop_ro("columns", [](const BatchHandle& self) { return self.batch->columns(); })
      .def_prop_ro("nnz", [](const BatchHandle& self) { return self.batch->nnz(); })
      .def_prop_ro(
          "repeated_row", [](const BatchHandle& self) { return self.batch->repeated_row(); },
          "Row that is here a second time to make ranks even, if there is one.")
      .def("csr", &csr,
           nb::sig("def csr(self) -> tuple[numpy.typing.NDArray[typing.Any], "
                   "numpy.typing.NDArray[typing.Any], numpy.typing.NDArray[typing.Any]]"))
      .def("dense", &dense, nb::sig("def dense(self) -> numpy.typing.NDArray[typing.Any]"))
      .def("joinids", &joinids, nb::sig("def joinids(self) -> numpy.typing.NDArray[typing.Any]"))
      .def("lengths", &lengths, nb::sig("def lengths(self) -> numpy.typing.NDArray[typing.Any]"))
      .def("part", &part, nb::arg("index"), "The arrays of a measurement.")
      .def("missing", &missing, nb::sig("def missing(self) -> numpy.typing.NDArray[typing.Any]"),
           "Of a part: 1 for rows without an entry.")
      .def("positions", &positions,
           nb::sig("def positions(self) -> numpy.typing.NDArray[typing.Any]"));
}

}  // namespace penstock::python
