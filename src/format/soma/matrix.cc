#include "format/soma/matrix.h"

#include <penstock/error.h>

#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "format/handle_access.h"
#include "format/soma/x/source.h"
#include "format/tiledb/reader/array_reader.h"

namespace penstock {
namespace {

using format::tiledb::ArrayReader;
using format::tiledb::ArraySchema;
using format::tiledb::Dimension;
using format::tiledb::TilePart;

int64_t length_along(const ArraySchema& schema, size_t d) {
  const Dimension& dimension = schema.dimensions[d];
  const int64_t last = schema.current_domain.empty() ? dimension.domain_max()
                                                     : schema.current_domain[d].max_as<int64_t>();
  return checked_add<int64_t>(last, 1, "shape of the matrix");
}

std::string extent_text(const Dimension& dimension) {
  return dimension.has_extent() ? std::to_string(dimension.extent()) : "none";
}

std::string layout_text(const ArraySchema& schema) {
  std::string text(name_of(schema.cell_order));
  text +=
      ", tiles " + extent_text(schema.dimensions[0]) + " x " + extent_text(schema.dimensions[1]);
  return schema.dense() ? "dense, " + text : text + ", capacity " + std::to_string(schema.capacity);
}

uint64_t bytes_of(const ArrayReader& reader) {
  uint64_t bytes = 0;
  for (const auto& fragment : reader.fragments()) {
    for (const auto& field : fragment->fields()) {
      bytes += fragment->file_bytes(field, TilePart::kData);
      if (field.var_length()) bytes += fragment->file_bytes(field, TilePart::kVar);
      if (field.nullable) bytes += fragment->file_bytes(field, TilePart::kValidity);
    }
  }
  return bytes;
}

}  // namespace

Matrix::State::State(io::StorePtr store_in, std::string path_in, format::tiledb::TimeRange range_in,
                     unsigned threads_in, std::optional<DataFrame> rows_in)
    : store(std::move(store_in)),
      path(std::move(path_in)),
      range(range_in),
      threads(threads_in),
      rows(std::move(rows_in)) {
  const auto reader = ArrayReader::open(store, path, range, threads);
  const ArraySchema& schema = reader->schema();
  const bool plane = schema.dimensions.size() == 2 &&
                     schema.dimensions[0].type == DataType::kInt64 &&
                     schema.dimensions[1].type == DataType::kInt64;
  if (!plane || schema.attributes.size() != 1) {
    throw Unsupported(concat("a layer of X is two int64 dimensions and one attribute, array ", path,
                             " has ", schema.dimensions.size(), " and ", schema.attributes.size()));
  }
  shape = {length_along(schema, 0), length_along(schema, 1)};
  value_type = schema.attributes[0].type;
  stored_bytes = bytes_of(*reader);
  fragment_count = static_cast<uint32_t>(reader->fragments().size());
  layout = layout_text(schema);
}

const std::shared_ptr<const format::MatrixSource>& Matrix::State::source() const {
  return source_.get([&] {
    return origin.source ? origin.source()
                         : format::soma::open_x_source(store, path, range, threads);
  });
}

const RowSelection* Matrix::State::stored_rows() const {
  const auto& stored = stored_rows_.get([&]() -> std::optional<RowSelection> {
    if (origin.stored_rows) return origin.stored_rows();
    if (rows) return rows->select("");
    return std::nullopt;
  });
  return stored ? &*stored : nullptr;
}

std::pair<int64_t, int64_t> Matrix::shape() const { return state_->shape; }
DataType Matrix::value_type() const { return state_->value_type; }
const std::string& Matrix::uri() const { return state_->path; }
uint64_t Matrix::stored_bytes() const { return state_->stored_bytes; }
uint32_t Matrix::fragment_count() const { return state_->fragment_count; }
const std::string& Matrix::layout() const { return state_->layout; }
bool Matrix::addresses_rows() const { return state_->addresses_rows; }
bool Matrix::is_cached(const RowSelection& rows) const { return state_->source()->is_cached(rows); }
uint64_t Matrix::stored_cells() const { return state_->source()->info().stored_cells; }
uint64_t Matrix::tile_count() const { return state_->source()->info().tile_count; }

const std::shared_ptr<const format::MatrixSource>& HandleAccess::source(const Matrix& matrix) {
  return matrix.state_->source();
}
const RowSelection* HandleAccess::stored_rows(const Matrix& matrix) {
  return matrix.state_->stored_rows();
}

}  // namespace penstock
