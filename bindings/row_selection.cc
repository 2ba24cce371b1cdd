#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <penstock/row_selection.h>

#include <vector>

#include "register.h"
#include "support/gil.h"
#include "support/numpy_array.h"
#include "support/repr.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

nb::object to_numpy(const RowSelection& selection) {
  auto joinids = [&] {
    GilRelease release;
    return std::make_shared<std::vector<int64_t>>(selection.to_vector());
  }();
  return numpy_array(joinids->data(), {joinids->size()}, DataType::kInt64, keep_alive(joinids));
}

}  // namespace

void register_row_selection(nb::module_& module) {
  using Release = nb::call_guard<GilRelease>;
  nb::class_<RowSelection>(module, "RowSelection",
                           "A set of joinids (int64), ascending; a compressed bitmap.")
      .def(nb::init<>())
      .def_static("range", &RowSelection::range, nb::arg("begin"), nb::arg("end"))
      .def_static(
          "from_unsorted",
          [](const Vector<int64_t>& joinids) {
            return RowSelection::from_unsorted(span_of(joinids));
          },
          nb::arg("joinids"), Release())
      .def_static(
          "deserialize",
          [](nb::bytes bytes) {
            return RowSelection::deserialize(
                {static_cast<const std::byte*>(bytes.data()), bytes.size()});
          },
          nb::arg("data"))
      .def("serialize",
           [](const RowSelection& self) {
             const std::string bytes = self.serialize();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("__len__", &RowSelection::size)
      .def("__contains__", &RowSelection::contains, nb::arg("joinid"))
      .def("at", &RowSelection::at, nb::arg("position"))
      .def(
          "take",
          [](const RowSelection& self, const Vector<uint64_t>& positions) {
            return self.take(span_of(positions));
          },
          nb::arg("positions"), Release())
      .def("to_numpy", &to_numpy,
           nb::sig("def to_numpy(self) -> numpy.typing.NDArray[numpy.int64]"))
      .def("shifted", &RowSelection::shifted, nb::arg("offset"), Release(),
           "Moved by a multiple of 2**32.")
      .def(nb::self & nb::self, Release())
      .def(nb::self | nb::self, Release())
      .def(nb::self - nb::self, Release())
      .def("__eq__",
           [](const RowSelection& self, const nb::object& other) {
             return nb::isinstance<RowSelection>(other) && self == nb::cast<RowSelection>(other);
           })
      .def(
          "__repr__", [](const nb::handle self) { return repr_by("rows_text", self); },
          nb::sig("def __repr__(self) -> str"))
      .def("fingerprint", &RowSelection::fingerprint)
      .def_prop_ro("memory_bytes", &RowSelection::memory_bytes)
      .def("__getstate__",
           [](const RowSelection& self) {
             const std::string bytes = self.serialize();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("__setstate__", [](RowSelection& self, nb::bytes bytes) {
        new (&self) RowSelection(
            RowSelection::deserialize({static_cast<const std::byte*>(bytes.data()), bytes.size()}));
      });
}

}  // namespace penstock::python
