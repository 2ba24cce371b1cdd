#include "format/soma/matrix.h"

#include <penstock/error.h>

#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "format/soma/x/source.h"
#include "format/stored_matrix.h"
#include "format/tiledb/reader/array_reader.h"

namespace penstock::format::soma {
namespace {

using tiledb::ArrayReader;
using tiledb::ArraySchema;
using tiledb::Dimension;
using tiledb::TilePart;

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

std::shared_ptr<const HandleAccess::MatrixState> open_matrix(const io::StorePtr& store,
                                                             const std::string& path,
                                                             tiledb::TimeRange range,
                                                             unsigned threads,
                                                             std::optional<DataFrame> rows) {
  const auto reader = ArrayReader::open(store, path, range, threads);
  const ArraySchema& schema = reader->schema();
  const bool plane = schema.dimensions.size() == 2 &&
                     schema.dimensions[0].type == DataType::kInt64 &&
                     schema.dimensions[1].type == DataType::kInt64;
  if (!plane || schema.attributes.size() != 1) {
    throw Unsupported(concat("a layer of X is two int64 dimensions and one attribute, array ", path,
                             " has ", schema.dimensions.size(), " and ", schema.attributes.size()));
  }
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [=] { return open_x_source(store, path, range, threads); },
      [rows = std::move(rows)] {
        return rows ? std::optional<RowSelection>(rows->select("")) : std::nullopt;
      }});
  state->path = path;
  state->shape = {length_along(schema, 0), length_along(schema, 1)};
  state->value_type = schema.attributes[0].type;
  state->stored_bytes = bytes_of(*reader);
  state->fragment_count = static_cast<uint32_t>(reader->fragments().size());
  state->layout = layout_text(schema);
  return state;
}

}  // namespace penstock::format::soma
