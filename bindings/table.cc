#include "table.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <penstock/table.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "register.h"
#include "support/gil.h"
#include "support/numpy_array.h"
#include "support/repr.h"
#include "support/string_codes.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

nb::object bytes_or_text(DataType type, std::string_view value) {
  // tiledbsoma also reads char as large_binary.
  if (type == DataType::kBlob || type == DataType::kChar || type == DataType::kGeomWkb) {
    return nb::bytes(value.data(), value.size());
  }
  PyObject* text =
      PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "surrogateescape");
  if (text == nullptr) throw nb::python_error();
  return nb::steal(text);
}

/// Fixed values, or the codes of an enumerated column; no copy.
nb::object values(const TableColumn& self) {
  const Column& column = self.column();
  if (column.is_variable()) {
    throw InvalidArgument("a string column has no fixed values, column " + column.name);
  }
  const DataType type = column.categories ? column.code_type : column.type;
  return numpy_array(column.data.data(), {column.size()}, type, keep_alive(self.table));
}

nb::list strings(const TableColumn& self) {
  const Column& column = self.column();
  if (!column.is_variable()) {
    throw InvalidArgument("not a string column, column " + column.name);
  }
  nb::list list;
  for (uint64_t row = 0; row < column.size(); ++row) {
    list.append(column.is_valid(row) ? bytes_or_text(column.type, column.string_at(row))
                                     : nb::none());
  }
  return list;
}

/// (int32 codes, distinct strings in order of first appearance); -1 for null.
nb::tuple string_codes(const TableColumn& self) {
  auto coded = [&] {
    GilRelease release;
    return std::make_shared<StringCodes>(encode_strings(self.column()));
  }();
  nb::list distinct;
  for (const std::string_view value : coded->distinct) {
    distinct.append(bytes_or_text(self.column().type, value));
  }
  nb::object codes =
      numpy_array(coded->codes.data(), {coded->codes.size()}, DataType::kInt32, keep_alive(coded));
  return nb::make_tuple(codes, distinct);
}

nb::object validity(const TableColumn& self) {
  const Column& column = self.column();
  if (column.validity.empty()) return nb::none();
  return numpy_array(column.validity.data(), {column.size()}, DataType::kUInt8,
                     keep_alive(self.table));
}

nb::object categories(const TableColumn& self) {
  const Column& column = self.column();
  if (!column.categories) return nb::none();
  const Categories& categories = *column.categories;
  if (is_string(categories.type) || categories.type == DataType::kBlob) {
    nb::list list;
    for (const std::string& value : categories.strings) {
      list.append(bytes_or_text(categories.type, value));
    }
    return list;
  }
  return numpy_array(categories.values.data(), {categories.size()}, categories.type,
                     keep_alive(column.categories));
}

ConstantColumn constant_text(std::string name, std::string text) {
  ConstantColumn column;
  column.info.name = std::move(name);
  column.info.type = DataType::kStringUtf8;
  column.info.enumerated = true;
  column.text = std::move(text);
  return column;
}

ConstantColumn constant_missing(const ColumnInfo& info) { return {info, std::nullopt}; }

}  // namespace

void register_table(nb::module_& module) {
  nb::class_<ColumnInfo>(module, "ColumnInfo", "What a column of obs or var is.")
      .def_ro("name", &ColumnInfo::name)
      .def_prop_ro("type", [](const ColumnInfo& self) { return std::string(name_of(self.type)); })
      .def_ro("is_index", &ColumnInfo::is_index)
      .def_ro("nullable", &ColumnInfo::nullable)
      .def_ro("enumerated", &ColumnInfo::enumerated)
      .def_ro("ordered", &ColumnInfo::ordered)
      .def_ro("stored_bytes", &ColumnInfo::stored_bytes)
      .def(
          "__repr__", [](const nb::handle self) { return repr_by("column_text", self); },
          nb::sig("def __repr__(self) -> str"))
      .def_prop_ro("is_string", [](const ColumnInfo& self) {
        return is_string(self.type) || self.type == DataType::kBlob;
      });

  nb::class_<ConstantColumn>(module, "ConstantColumn",
                             "A column with one value in every row, for filters to name.")
      .def_static("text", &constant_text, nb::arg("name"), nb::arg("text"))
      .def_static("missing", &constant_missing, nb::arg("column"));

  nb::class_<TableColumn>(module, "Column", "One column in memory.")
      .def_prop_ro("name", [](const TableColumn& self) { return self.column().name; })
      .def_prop_ro("type",
                   [](const TableColumn& self) { return std::string(name_of(self.column().type)); })
      .def_prop_ro("is_coded",
                   [](const TableColumn& self) { return self.column().categories != nullptr; })
      .def_prop_ro("is_enumerated",
                   [](const TableColumn& self) {
                     const auto& categories = self.column().categories;
                     return categories != nullptr && !categories->from_strings;
                   })
      .def_prop_ro("is_string", [](const TableColumn& self) { return self.column().is_variable(); })
      .def_prop_ro("ordered",
                   [](const TableColumn& self) {
                     return self.column().categories && self.column().categories->ordered;
                   })
      .def("__len__", [](const TableColumn& self) { return self.column().size(); })
      .def("values", &values, nb::sig("def values(self) -> numpy.typing.NDArray[typing.Any]"))
      .def("strings", &strings, nb::sig("def strings(self) -> list[str | bytes | None]"))
      .def("string_codes", &string_codes,
           nb::sig("def string_codes(self) -> tuple[numpy.typing.NDArray[typing.Any], list[str | "
                   "bytes]]"))
      .def("validity", &validity,
           nb::sig("def validity(self) -> numpy.typing.NDArray[typing.Any] | None"))
      .def("categories", &categories,
           nb::sig("def categories(self) -> list[str | bytes] | numpy.typing.NDArray[typing.Any] | "
                   "None"));
}

}  // namespace penstock::python
