#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <vector>

#include "plan/cut/row_deal.h"
#include "register.h"
#include "support/gil.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

using Counts = nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename Stratum>
using Strata = nb::ndarray<const Stratum, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename Stratum>
std::vector<RowSelection> split_rows(const RowSelection& rows, const Strata<Stratum>& strata,
                                     const Counts& counts, uint64_t seed) {
  return plan::deal_rows(
      rows, std::span<const Stratum>(strata.data(), strata.size()),
      {std::vector<uint64_t>(counts.data(), counts.data() + counts.size()), counts.shape(1)}, seed);
}

template <typename Stratum>
void define(nb::module_& module) {
  module.def("split_rows", &split_rows<Stratum>, nb::arg("rows"), nb::arg("strata"),
             nb::arg("counts"), nb::arg("seed"), nb::call_guard<GilRelease>(),
             "Deals rows at random among parts: `counts` has the rows of each stratum for each "
             "part, `strata` the stratum of each row (empty: one for all).");
}

}  // namespace

void register_split_rows(nb::module_& module) {
  define<uint8_t>(module);
  define<uint16_t>(module);
  define<uint32_t>(module);
}

}  // namespace penstock::python
