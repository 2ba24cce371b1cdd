#include <penstock/row_sampling.h>

#include "register.h"
#include "support/gil.h"
#include "support/numpy_array.h"

namespace penstock::python {
namespace nb = nanobind;
void register_row_sampling(nb::module_& module) {
  using Release = nb::call_guard<GilRelease>;
  nb::class_<RowWeights>(module, "RowWeights", "Sampling weights of selected rows, by position.")
      .def_static(
          "from_values",
          [](const Vector<double>& weights) { return RowWeights::from_values(span_of(weights)); },
          nb::arg("weights"), Release())
      .def_static(
          "from_classes",
          [](const Vector<int32_t>& codes, const Vector<double>& class_weights) {
            return RowWeights::from_classes(span_of(codes), span_of(class_weights));
          },
          nb::arg("codes"), nb::arg("class_weights"), Release())
      .def("__len__", &RowWeights::size)
      .def_prop_ro("positive_count", &RowWeights::positive_count)
      .def("fingerprint", &RowWeights::fingerprint);

  nb::class_<RowSampling>(module, "RowSampling", "An epoch of rows that are drawn at random.")
      .def(
          "__init__",
          [](RowSampling* self, const RowWeights* weights, uint64_t samples, bool replacement) {
            new (self)
                RowSampling{weights == nullptr ? RowWeights() : *weights, samples, replacement};
          },
          nb::arg("weights").none(), nb::arg("samples"), nb::arg("replacement"))
      .def_ro("samples", &RowSampling::samples)
      .def("fingerprint", &RowSampling::fingerprint);
}

}  // namespace penstock::python
