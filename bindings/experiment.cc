#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <penstock/beside.h>
#include <penstock/error.h>
#include <penstock/experiment.h>
#include <penstock/join.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/handle_access.h"
#include "format/matrix_source.h"
#include "register.h"
#include "support/credentials.h"
#include "support/gil.h"
#include "support/repr.h"
#include "table.h"
#include "table/filter_expression.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

using Texts = std::map<std::string, std::string>;

Experiment open(const std::string& uri, std::optional<uint64_t> timestamp_ms, unsigned threads,
                Texts storage_options, nb::object credentials) {
  OpenOptions options;
  options.timestamp_ms = timestamp_ms;
  options.threads = threads;
  options.storage = {std::move(storage_options), credentials_of(std::move(credentials))};
  const GilRelease release;
  return Experiment::open(uri, options);
}

std::vector<TableColumn> read(const DataFrame& self, std::vector<std::string> columns,
                              std::string value_filter, std::optional<RowSelection> joinids) {
  auto table = std::make_shared<const Table>(
      self.read({std::move(columns), std::move(value_filter), std::move(joinids)}));
  std::vector<TableColumn> result;
  for (size_t index = 0; index < table->columns.size(); ++index) result.push_back({table, index});
  return result;
}

}  // namespace

void register_experiment(nb::module_& module) {
  using Release = nb::call_guard<GilRelease>;

  module.def(
      "filter_columns",
      [](std::string_view value_filter) {
        return table::FilterExpression::parse(value_filter).columns();
      },
      nb::arg("value_filter"), "Names of the columns that a filter compares.");
  module.def(
      "expect_one_order",
      [](std::string_view value_filter, const std::vector<std::string>& without_order) {
        std::vector<ColumnInfo> infos;
        for (const std::string& name : without_order) {
          ColumnInfo& info = infos.emplace_back();
          info.name = name;
          info.enumerated = true;
        }
        table::FilterExpression::parse(value_filter).expect_one_order(infos);
      },
      nb::arg("value_filter"), nb::arg("without_order"),
      "Refuse a filter that compares these columns of categories by < or >.");

  nb::class_<DataFrame>(module, "DataFrame")
      .def_prop_ro("columns", &DataFrame::columns, Release())  // opens the array
      .def_prop_ro(
          "unread_columns",
          [](const DataFrame& self) {
            const UnreadColumns& unread = self.unread_columns();
            return std::map<std::string, std::string>(unread.begin(), unread.end());
          },
          Release())
      .def("row_count", &DataFrame::row_count, Release())
      .def_prop_ro("uri", &DataFrame::uri)
      .def("read", &read, nb::arg("columns"), nb::arg("value_filter"), nb::arg("joinids").none(),
           Release())
      .def(
          "select",
          [](const DataFrame& self, std::string_view value_filter,
             const std::vector<ConstantColumn>& constants) {
            return self.select(value_filter, constants);
          },
          nb::arg("value_filter"), nb::arg("constants") = std::vector<ConstantColumn>(), Release());

  nb::class_<plan::FetchUnit>(module, "FetchUnit")
      .def_ro("row_begin", &plan::FetchUnit::row_begin)
      .def_ro("row_end", &plan::FetchUnit::row_end)
      .def_ro("cell_bound", &plan::FetchUnit::cell_bound)
      .def_ro("stored_bytes", &plan::FetchUnit::stored_bytes)
      .def_ro("tile_count", &plan::FetchUnit::tile_count);

  nb::class_<Matrix>(module, "Matrix")
      .def_prop_ro("shape", &Matrix::shape)
      .def_prop_ro("value_type",
                   [](const Matrix& self) { return std::string(name_of(self.value_type())); })
      .def_prop_ro("uri", &Matrix::uri)
      .def_prop_ro("stored_bytes", &Matrix::stored_bytes)
      .def_prop_ro("fragment_count", &Matrix::fragment_count)
      .def_prop_ro("layout", &Matrix::layout)
      .def_prop_ro("addresses_rows", &Matrix::addresses_rows,
                   "Whether any row can be read by itself at little cost, as in a pack on a disk.")
      .def("is_cached", &Matrix::is_cached, nb::arg("rows"), Release(),
           "Whether a cache that it is read through has each of these rows now.")
      .def("expect_rows", &Matrix::expect_rows,
           "Raise Unsupported if the matrix is stored by genes, so that rows cannot be read.")
      .def("has_fractions", &Matrix::has_fractions, Release(),
           "Whether a value of some rows is no whole number. Reads a few rows.")
      .def(
          "__repr__", [](const nb::handle self) { return repr_by("matrix_text", self); },
          nb::sig("def __repr__(self) -> str"))
      .def(
          "stored_cells", [](const Matrix& self) { return self.stored_cells(); }, Release())
      .def(
          "tile_count", [](const Matrix& self) { return self.tile_count(); }, Release())
      .def(
          "units",
          [](const Matrix& self) {
            const auto units = HandleAccess::source(self)->units();
            return std::vector<plan::FetchUnit>(units.begin(), units.end());
          },
          Release());

  nb::class_<JoinPart>(module, "JoinPart", "A matrix to be joined with others.")
      .def(
          "__init__",
          [](JoinPart* self, const Matrix& matrix, int64_t row_offset, int64_t row_end,
             std::vector<int64_t> columns, std::vector<uint32_t> joined_columns) {
            new (self) JoinPart{matrix, row_offset, row_end, std::move(columns),
                                std::move(joined_columns)};
          },
          nb::arg("matrix"), nb::arg("row_offset"), nb::arg("row_end"), nb::arg("columns"),
          nb::arg("joined_columns"));
  module.def("beside", &beside, nb::arg("matrices"), Release(),
             "Matrices with the same rows as one: columns of the first, then of the second.");
  module.def("join_matrices", &join_matrices, nb::arg("parts"), nb::arg("column_count"));

  // Tests compare it with penstock.experiment.joined, which the package uses.
  nb::enum_<JoinGenes>(module, "JoinGenes")
      .value("inner", JoinGenes::kInner)
      .value("outer", JoinGenes::kOuter)
      .value("listed", JoinGenes::kListed);
  nb::class_<JoinExperiment>(module, "JoinExperiment", "An experiment to be joined with others.")
      .def(
          "__init__",
          [](JoinExperiment* self, const Experiment& experiment, std::string name,
             std::string measurement, std::string layer) {
            new (self) JoinExperiment{experiment, std::move(name), std::move(measurement),
                                      std::move(layer)};
          },
          nb::arg("experiment"), nb::arg("name"), nb::arg("measurement"), nb::arg("layer"));
  module.def(
      "join_experiments",
      [](std::vector<JoinExperiment> experiments, JoinGenes genes,
         std::vector<std::string> gene_names, std::string var_column, std::string source_column) {
        return join_experiments(
            std::move(experiments),
            {genes, std::move(gene_names), std::move(var_column), std::move(source_column)});
      },
      nb::arg("experiments"), nb::arg("genes"), nb::arg("gene_names"), nb::arg("var_column"),
      nb::arg("source_column"), Release());

  nb::class_<Experiment>(module, "Experiment")
      .def_static("open", &open, nb::arg("uri"), nb::arg("timestamp_ms").none(), nb::arg("threads"),
                  nb::arg("storage_options") = Texts(), nb::arg("credentials").none() = nb::none())
      .def_prop_ro("uri", &Experiment::uri)
      .def("obs", &Experiment::obs, Release())
      .def("measurements", &Experiment::measurements, Release())
      .def("var", &Experiment::var, nb::arg("measurement"), Release())
      .def("layers", &Experiment::layers, nb::arg("measurement"), Release())
      .def("default_layer", &Experiment::default_layer, nb::arg("measurement"), Release())
      .def("x", &Experiment::x, nb::arg("measurement"), nb::arg("layer"), Release())
      .def("metadata", &Experiment::metadata, Release());
}

}  // namespace penstock::python
