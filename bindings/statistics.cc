#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <penstock/statistics.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "register.h"
#include "support/gil.h"
#include "support/numpy_array.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

constexpr double kSignalPollSeconds = 0.1;

/// Reads to the end. The GIL is held only to check for signals between polls.
void run(StatisticsPass& pass) {
  for (bool more = true; more;) {
    {
      GilRelease release;
      more = pass.advance(kSignalPollSeconds);
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

/// (nonzeros, total, squared_deviation)
nb::tuple arrays_of(Moments moments) {
  const auto held = std::make_shared<Moments>(std::move(moments));
  const nb::capsule owner = keep_alive(held);
  const size_t size = held->total.size();
  return nb::make_tuple(
      numpy_array(held->nonzeros.data(), {size}, DataType::kInt64, owner),
      numpy_array(held->total.data(), {size}, DataType::kFloat64, owner),
      numpy_array(held->squared_deviation.data(), {size}, DataType::kFloat64, owner));
}

constexpr const char* kArraysOfColumns =
    "def columns(self) -> tuple[numpy.typing.NDArray[numpy.int64], "
    "numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.float64]]";
constexpr const char* kArraysOfRows =
    "def rows(self) -> tuple[numpy.typing.NDArray[numpy.int64], "
    "numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.float64]]";

}  // namespace

void register_statistics(nb::module_& module) {
  nb::class_<StatisticsOptions>(module, "StatisticsOptions")
      .def(nb::init<>())
      .def_rw("memory_budget", &StatisticsOptions::memory_budget)
      .def_rw("threads", &StatisticsOptions::threads)
      .def_rw("by_column", &StatisticsOptions::by_column)
      .def_rw("by_row", &StatisticsOptions::by_row)
      .def(
          "from_loader",
          [](StatisticsOptions& self, const LoaderOptions& loader) {
            self.rows = loader.rows;
            self.columns = loader.columns;
            self.transforms = loader.transforms;
            self.dtype = loader.dtype;
            self.memory_budget = loader.memory_budget;
            self.kept = loader.kept;
            self.threads = loader.threads;
          },
          nb::arg("loader"), "Rows, columns, transforms, dtype, memory and threads.")
      .def(
          "group",
          [](StatisticsOptions& self, const Vector<uint32_t>& groups, uint32_t count) {
            self.groups = copy_of(groups);
            self.group_count = count;
          },
          nb::arg("groups"), nb::arg("count"))
      .def_rw("chunk_rows", &StatisticsOptions::chunk_rows)
      .def(
          "clip",
          [](StatisticsOptions& self, const Vector<double>& upper) { self.upper = copy_of(upper); },
          nb::arg("upper"));

  nb::class_<StatisticsPass>(module, "StatisticsPass", "Moments of a matrix, in one pass.")
      .def(nb::init<const Matrix&, StatisticsOptions>(), nb::arg("matrix"), nb::arg("options"),
           nb::call_guard<GilRelease>())
      .def("run", &run, "Read everything.")
      .def("rows_done", &StatisticsPass::rows_done)
      .def_prop_ro("column_count", &StatisticsPass::column_count)
      .def("group_sizes", &StatisticsPass::group_sizes)
      .def(
          "columns", [](const StatisticsPass& self) { return arrays_of(self.columns()); },
          nb::sig(kArraysOfColumns),
          "Non-zeros, totals, squared deviations; by group, then column.")
      .def(
          "rows", [](const StatisticsPass& self) { return arrays_of(self.rows()); },
          nb::sig(kArraysOfRows), "The same by row.")
      .def("sums", [](const StatisticsPass& self) {
        const std::string sums = self.sums();
        return nb::bytes(sums.data(), sums.size());
      });

  nb::class_<StatisticsSum>(module, "StatisticsSum", "Adds up the sums of passes over chunks.")
      .def(
          "__init__",
          [](StatisticsSum* self, uint32_t columns, uint32_t group_count,
             const std::optional<Vector<double>>& upper) {
            new (self) StatisticsSum(columns, group_count,
                                     upper ? copy_of(*upper) : std::vector<double>());
          },
          nb::arg("columns"), nb::arg("group_count"), nb::arg("upper").none())
      .def(
          "add",
          [](StatisticsSum& self, const nb::bytes& sums, const std::vector<uint64_t>& group_sizes,
             const std::vector<uint32_t>& groups) {
            self.add({sums.c_str(), sums.size()}, group_sizes, groups);
          },
          nb::arg("sums"), nb::arg("group_sizes"), nb::arg("groups"))
      .def("group_sizes", &StatisticsSum::group_sizes)
      .def(
          "columns", [](const StatisticsSum& self) { return arrays_of(self.columns()); },
          nb::sig(kArraysOfColumns), "As of StatisticsPass.");
}

}  // namespace penstock::python
