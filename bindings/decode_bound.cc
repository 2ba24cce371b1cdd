#include "format/soma/x/decode_bound.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <penstock/error.h>

#include <string>
#include <tuple>
#include <vector>

#include "register.h"
#include "support/gil.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

using format::soma::XPart;

XPart part_named(const std::string& name) {
  if (name == "rows") return XPart::kRows;
  if (name == "columns") return XPart::kColumns;
  if (name == "values") return XPart::kValues;
  throw InvalidArgument("a part is rows, columns or values, got " + name);
}

std::tuple<double, uint64_t, uint64_t, uint64_t> decode_bound(const std::string& uri,
                                                              const std::vector<std::string>& names,
                                                              uint64_t most_bytes, unsigned threads,
                                                              unsigned rounds) {
  std::vector<XPart> parts;
  parts.reserve(names.size());
  for (const std::string& name : names) parts.push_back(part_named(name));
  const auto bound = format::soma::measure_decode_bound(uri, parts, most_bytes, threads, rounds);
  return {bound.seconds, bound.cells, bound.array_cells, bound.stored_bytes};
}

}  // namespace

void register_decode_bound(nb::module_& module) {
  module.def("decode_bound", &decode_bound, nb::arg("uri"), nb::arg("parts"), nb::arg("most_bytes"),
             nb::arg("threads"), nb::arg("rounds"), nb::call_guard<GilRelease>(),
             "Seconds that undoing the filters of tiles of a sparse X takes, spread over the array "
             "and of at most `most_bytes`, from memory; their cells, those of the array, and the "
             "bytes decoded. For `penstock bench`.");
}

}  // namespace penstock::python
