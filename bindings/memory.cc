#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <penstock/error.h>
#include <penstock/memory.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "register.h"
#include "support/gil.h"

// Experiments of arrays in memory. Python gives numpy arrays; the engine reads them in place and
// holds a reference to each.

namespace penstock::python {
namespace nb = nanobind;
namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;

/// Holds a Python object. The engine may let go of it on any thread, also while the interpreter
/// ends, when the object is leaked.
std::shared_ptr<const void> keep(nb::object object) {
  auto* const kept = new nb::object(std::move(object));
  return {kept, [](const void* pointer) noexcept {
            auto* const held = static_cast<const nb::object*>(pointer);
            try {
              const GilAcquire gil;
              delete held;
            } catch (const Error&) {  // the interpreter ends
            }
          }};
}

DataType type_of(const nb::dlpack::dtype& dtype, const std::string& what) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(dtype.code);
  if (dtype.lanes == 1) {
    if (code == Code::Bool) return DataType::kBool;
    if (code == Code::Float && dtype.bits == 32) return DataType::kFloat32;
    if (code == Code::Float && dtype.bits == 64) return DataType::kFloat64;
    if (code == Code::Int || code == Code::UInt) {
      const bool is_signed = code == Code::Int;
      switch (dtype.bits) {
        case 8:
          return is_signed ? DataType::kInt8 : DataType::kUInt8;
        case 16:
          return is_signed ? DataType::kInt16 : DataType::kUInt16;
        case 32:
          return is_signed ? DataType::kInt32 : DataType::kUInt32;
        case 64:
          return is_signed ? DataType::kInt64 : DataType::kUInt64;
        default:
          break;
      }
    }
  }
  throw Unsupported(what + " has a type of numbers that is not read");
}

MemoryArray vector_of(const nb::object& object, const std::string& what) {
  const auto array = nb::cast<Array>(object);
  if (array.ndim() != 1 || (array.shape(0) > 1 && array.stride(0) != 1)) {
    throw InvalidArgument(what + " must be a contiguous array of one dimension");
  }
  return {type_of(array.dtype(), what), static_cast<const std::byte*>(array.data()), array.shape(0),
          keep(object)};
}

std::vector<int64_t> numbers_of(const nb::object& object) {
  const auto array = nb::cast<nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig>>(object);
  return {array.data(), array.data() + array.size()};
}

MemoryView view_of(const nb::object& rows, const nb::object& columns) {
  MemoryView view;
  view.all_rows = rows.is_none();
  view.all_columns = columns.is_none();
  if (!view.all_rows) view.rows = numbers_of(rows);
  if (!view.all_columns) view.columns = numbers_of(columns);
  return view;
}

std::vector<std::byte> bytes_of(const nb::object& object, const std::string& what, DataType& type) {
  const MemoryArray array = vector_of(object, what);
  type = array.type;
  return {array.data, array.data + array.count * size_of(array.type)};
}

std::vector<uint8_t> validity_of(const nb::object& valid) {
  if (valid.is_none()) return {};
  const auto array = nb::cast<nb::ndarray<const bool, nb::ndim<1>, nb::c_contig>>(valid);
  return {array.data(), array.data() + array.size()};
}

Column numbers_column(std::string name, const nb::object& values, const nb::object& valid) {
  Column column;
  column.data = bytes_of(values, name, column.type);
  column.validity = validity_of(valid);
  column.row_count = column.data.size() / size_of(column.type);
  column.name = std::move(name);
  return column;
}

/// `codes`: -1 for missing ones. `categories`: texts, or an array of numbers.
Column codes_column(std::string name, const nb::object& codes, const nb::object& categories,
                    bool ordered, bool from_strings) {
  Column column;
  auto made = std::make_shared<Categories>();
  made->ordered = ordered;
  made->from_strings = from_strings;
  if (nb::isinstance<nb::list>(categories)) {
    made->strings = nb::cast<std::vector<std::string>>(categories);
  } else {
    made->values = bytes_of(categories, name, made->type);
  }
  column.type = made->type;
  column.data = bytes_of(codes, name, column.code_type);
  column.row_count = column.data.size() / size_of(column.code_type);
  const auto count = static_cast<int64_t>(made->size());
  column.categories = std::move(made);
  column.name = std::move(name);
  for (uint64_t row = 0; row < column.row_count; ++row) {
    const int64_t code = column.code_at(row);
    if (code >= count || code < -1) {
      throw InvalidArgument("codes must be below the number of categories, column " + column.name);
    }
    if (code != -1) continue;
    if (column.validity.empty()) column.validity.assign(column.row_count, 1);
    column.validity[row] = 0;
  }
  return column;
}

Column strings_column(std::string name, const nb::bytes& characters, const nb::object& offsets) {
  Column column;
  const auto ends = nb::cast<nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig>>(offsets);
  column.name = std::move(name);
  column.type = DataType::kStringUtf8;
  column.data.resize(characters.size());
  std::memcpy(column.data.data(), characters.c_str(), characters.size());
  column.offsets.assign(ends.data(), ends.data() + ends.size());
  column.row_count = column.offsets.size() - 1;
  if (column.offsets.back() != column.data.size()) {
    throw InvalidArgument("offsets must end at the last character, column " + column.name);
  }
  return column;
}

MatrixInMemory csr(const nb::object& data, const nb::object& indices, const nb::object& indptr,
                   uint64_t rows, uint64_t columns, const nb::object& view_rows,
                   const nb::object& view_columns) {
  return CsrInMemory{vector_of(data, "data"),
                     vector_of(indices, "indices"),
                     vector_of(indptr, "indptr"),
                     rows,
                     columns,
                     view_of(view_rows, view_columns)};
}

MatrixInMemory dense(const nb::object& cells, const nb::object& view_rows,
                     const nb::object& view_columns) {
  const auto array = nb::cast<Array>(cells);
  if (array.ndim() != 2) throw InvalidArgument("a dense matrix must have two dimensions");
  const DataType type = type_of(array.dtype(), "a dense matrix");
  const auto size = static_cast<int64_t>(size_of(type));
  return DenseInMemory{
      {type, static_cast<const std::byte*>(array.data()), array.size(), keep(cells)},
      array.shape(0),
      array.shape(1),
      array.stride(0) * size,
      array.stride(1) * size,
      view_of(view_rows, view_columns)};
}

UnreadColumns to_unread(const std::map<std::string, std::string>& reasons) {
  return {reasons.begin(), reasons.end()};
}

}  // namespace

void register_memory(nb::module_& module) {
  nb::class_<Column>(module, "MemoryColumn", "A column of a table in memory.")
      .def_static("numbers", &numbers_column, nb::arg("name"), nb::arg("values"),
                  nb::arg("valid").none())
      .def_static("codes", &codes_column, nb::arg("name"), nb::arg("codes"), nb::arg("categories"),
                  nb::arg("ordered"), nb::arg("from_strings"))
      .def_static("strings", &strings_column, nb::arg("name"), nb::arg("characters"),
                  nb::arg("offsets"));
  nb::class_<MatrixInMemory>(module, "MemoryMatrix", "A matrix of numpy arrays, read in place.")
      .def_static("csr", &csr, nb::arg("data"), nb::arg("indices"), nb::arg("indptr"),
                  nb::arg("rows"), nb::arg("columns"), nb::arg("view_rows").none(),
                  nb::arg("view_columns").none())
      .def_static("dense", &dense, nb::arg("cells"), nb::arg("view_rows").none(),
                  nb::arg("view_columns").none());
  nb::class_<MemoryMeasurement>(module, "MemoryMeasurement")
      .def(
          "__init__",
          [](MemoryMeasurement* self, std::string name, std::vector<Column> var, uint64_t var_count,
             const std::map<std::string, std::string>& var_unread) {
            new (self) MemoryMeasurement{
                std::move(name), std::move(var), var_count, {}, to_unread(var_unread)};
          },
          nb::arg("name"), nb::arg("var"), nb::arg("var_count"), nb::arg("var_unread"))
      .def(
          "add_layer",
          [](MemoryMeasurement& self, std::string name, const MatrixInMemory& matrix) {
            self.layers.emplace_back(std::move(name), matrix);
          },
          nb::arg("name"), nb::arg("matrix"));
  module.def(
      "open_in_memory",
      [](std::string uri, std::vector<Column> obs, uint64_t obs_count,
         std::vector<MemoryMeasurement> measurements,
         const std::map<std::string, std::string>& obs_unread) {
        const GilRelease release;
        return open_in_memory({std::move(uri), std::move(obs), obs_count, std::move(measurements),
                               to_unread(obs_unread)});
      },
      nb::arg("uri"), nb::arg("obs"), nb::arg("obs_count"), nb::arg("measurements"),
      nb::arg("obs_unread"));
}

}  // namespace penstock::python
