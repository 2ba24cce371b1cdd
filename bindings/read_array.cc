#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>

#include "format/tiledb/reader/array_reader.h"
#include "register.h"
#include "support/gil.h"
#include "table.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

std::vector<TableColumn> read_array(const std::string& uri, std::vector<std::string> columns,
                                    std::optional<uint64_t> timestamp_start,
                                    std::optional<uint64_t> timestamp_end, unsigned threads) {
  auto table = std::make_shared<const Table>(format::tiledb::read_array(
      uri, columns, timestamp_start.value_or(0),
      timestamp_end.value_or(std::numeric_limits<uint64_t>::max()), threads));
  std::vector<TableColumn> result;
  for (size_t index = 0; index < table->columns.size(); ++index) result.push_back({table, index});
  return result;
}

}  // namespace

void register_read_array(nb::module_& module) {
  module.def(
      "read_array", &read_array, nb::arg("uri"), nb::arg("columns") = std::vector<std::string>{},
      nb::arg("timestamp_start").none() = nb::none(), nb::arg("timestamp_end").none() = nb::none(),
      nb::arg("threads") = 0, nb::call_guard<GilRelease>(),
      "Columns of any TileDB array, for tests and for a look at one; all of them when "
      "`columns` is empty.");
}

}  // namespace penstock::python
