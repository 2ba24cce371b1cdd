#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/tiledb/integer_value.h"
#include "format/tiledb/reader/array_reader.h"
#include "format/tiledb/reader/array_reader_cells.h"
#include "format/tiledb/reader/array_reader_lazy.h"
#include "table/column_operations.h"

// Dense arrays: footers alone give a map from each cell of the domain to the stored cell shown
// there. Then each column is read tile by tile and placed by the map.
//
// Within a fragment, tiles cover its non-empty domain widened to whole tiles, in tile order; cells
// within a tile are in cell order. Source: format_spec/array_format_history.md,
// tiledb/sm/array_schema/domain.cc.

namespace penstock::format::tiledb {
namespace {

/// The map takes 8 bytes a cell, plus the columns; a damaged domain must not allocate more.
constexpr uint64_t kMaxDenseCells = uint64_t{1} << 27;

/// A box of cells, as distances from the domain's least coordinates, both ends included.
struct Box {
  std::vector<uint64_t> first, last;
  uint64_t length(size_t d) const { return last[d] - first[d] + 1; }
};

uint64_t distance(int64_t from, int64_t to) {
  return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}

struct Geometry {
  explicit Geometry(const ArraySchema& schema)
      : tiles_row_major(schema.tile_order != Layout::kColMajor),
        cells_row_major(schema.cell_order != Layout::kColMajor) {
    Box whole;
    for (const Dimension& dimension : schema.dimensions) {
      if (dimension.var_length() || is_floating(dimension.type) || !dimension.has_extent()) {
        throw CorruptData("dimension '" + dimension.name + "' of a dense array is no integer");
      }
      origin.push_back(dimension.domain_min());
      whole.first.push_back(0);
      whole.last.push_back(distance(dimension.domain_min(), dimension.domain_max()));
      // Dense tiles of unsigned 64-bit extents past 2^63 do not exist.
      if (dimension.extent() <= 0) {
        throw CorruptData(
            concat("dimension '", dimension.name, "' has tile extent ", dimension.extent()));
      }
      extent.push_back(static_cast<uint64_t>(dimension.extent()));
    }
    region = schema.current_domain.empty() ? whole : box_of(schema, schema.current_domain);
    for (size_t d = 0; d < origin.size(); ++d) {
      if (region.first[d] > region.last[d] || region.last[d] > whole.last[d]) {
        throw CorruptData("the current domain lies outside of the domain");
      }
      const uint64_t length = region.length(d);
      if (length == 0 || length > kMaxDenseCells || cells * length > kMaxDenseCells) {
        throw InvalidArgument(
            concat("a dense array of more than ", kMaxDenseCells, " cells cannot be read whole"));
      }
      cells *= length;
      tile_cells = checked_mul(tile_cells, extent[d], "cells of a tile");
    }
  }

  Box box_of(const ArraySchema& schema, const NDRange& range) const {
    Box box;
    for (size_t d = 0; d < schema.dimensions.size(); ++d) {
      const DataType type = schema.dimensions[d].type;
      box.first.push_back(distance(origin[d], read_integer(type, range[d].min().data())));
      box.last.push_back(distance(origin[d], read_integer(type, range[d].max().data())));
    }
    return box;
  }

  /// Place of `at` (counted from `lengths`' own start) in row-major or column-major order.
  static uint64_t place(std::span<const uint64_t> at, std::span<const uint64_t> lengths,
                        bool row_major) {
    uint64_t result = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      const size_t d = row_major ? i : at.size() - 1 - i;
      result = result * lengths[d] + at[d];
    }
    return result;
  }

  std::vector<int64_t> origin;
  std::vector<uint64_t> extent;
  Box region;
  uint64_t cells = 1;
  uint64_t tile_cells = 1;
  bool tiles_row_major, cells_row_major;
};

/// Calls body(at) for every point of `box`, the last dimension fastest.
template <typename Body>
void for_each_point(const Box& box, Body&& body) {
  std::vector<uint64_t> at = box.first;
  while (true) {
    body(std::span<const uint64_t>(at));
    size_t d = at.size();
    while (d > 0 && at[d - 1] == box.last[d - 1]) {
      at[d - 1] = box.first[d - 1];
      --d;
    }
    if (d == 0) return;
    ++at[d - 1];
  }
}

bool intersect(const Box& a, const Box& b, Box& out) {
  out = a;
  for (size_t d = 0; d < a.first.size(); ++d) {
    out.first[d] = std::max(a.first[d], b.first[d]);
    out.last[d] = std::min(a.last[d], b.last[d]);
    if (out.first[d] > out.last[d]) return false;
  }
  return true;
}

struct SourceTile {
  size_t fragment = 0;
  uint64_t tile = 0;
};

/// The source of each cell of the region.
struct CellMap {
  std::vector<SourceTile> tiles;
  std::vector<uint32_t> tile_of;  // 1 + place in tiles; 0: no fragment has the cell
  std::vector<uint32_t> cell_of;
};

void map_tile(const Geometry& geometry, const Box& part, std::span<const uint64_t> tile_at,
              uint32_t number, CellMap& map) {
  const size_t rank = geometry.origin.size();
  std::vector<uint64_t> in_region(rank), in_tile(rank), lengths(rank);
  for (size_t d = 0; d < rank; ++d) lengths[d] = geometry.region.length(d);
  for_each_point(part, [&](std::span<const uint64_t> at) {
    for (size_t d = 0; d < rank; ++d) {
      in_region[d] = at[d] - geometry.region.first[d];
      in_tile[d] = at[d] - tile_at[d] * geometry.extent[d];
    }
    const uint64_t cell = Geometry::place(in_region, lengths, true);
    map.tile_of[cell] = number;
    map.cell_of[cell] =
        static_cast<uint32_t>(Geometry::place(in_tile, geometry.extent, geometry.cells_row_major));
  });
}

void map_fragment(const ArraySchema& schema, const Geometry& geometry,
                  const FragmentMetadata& fragment, size_t number, CellMap& map) {
  const size_t rank = geometry.origin.size();
  const Box written = geometry.box_of(schema, fragment.footer().non_empty_domain);
  Box shown;
  if (!intersect(written, geometry.region, shown)) return;
  Box tiles;  // of `shown`, counted in tiles of the domain
  std::vector<uint64_t> first_tile(rank), tile_counts(rank);
  uint64_t total = 1;
  for (size_t d = 0; d < rank; ++d) {
    first_tile[d] = written.first[d] / geometry.extent[d];
    tile_counts[d] = written.last[d] / geometry.extent[d] - first_tile[d] + 1;
    total = checked_mul(total, tile_counts[d], "tiles of a dense fragment");
    tiles.first.push_back(shown.first[d] / geometry.extent[d]);
    tiles.last.push_back(shown.last[d] / geometry.extent[d]);
  }
  if (total != fragment.tile_count() || fragment.tile_cells(0) != geometry.tile_cells) {
    throw CorruptData(concat("a dense fragment of ", fragment.tile_count(), " tiles covers ", total,
                             ", fragment ", fragment.location().path));
  }
  for_each_point(tiles, [&](std::span<const uint64_t> tile_at) {
    Box part = shown;
    std::vector<uint64_t> in_fragment(rank);
    for (size_t d = 0; d < rank; ++d) {
      const uint64_t begin = tile_at[d] * geometry.extent[d];
      part.first[d] = std::max(shown.first[d], begin);
      part.last[d] = std::min(shown.last[d], begin + geometry.extent[d] - 1);
      in_fragment[d] = tile_at[d] - first_tile[d];
    }
    map.tiles.push_back(
        {number, Geometry::place(in_fragment, tile_counts, geometry.tiles_row_major)});
    map_tile(geometry, part, tile_at, checked_cast<uint32_t>(map.tiles.size(), "tiles"), map);
  });
}

/// Places the cells of `parts` by the map: one column a source tile, empty if it has no such field.
Column lay_out(const CellMap& map, std::span<const Column> parts, Column fill) {
  Column result = std::move(fill);  // one row of the fill value
  const Column one = result;
  const uint64_t cells = map.tile_of.size();
  result.row_count = cells;
  result.data.clear();
  if (result.is_variable()) result.offsets.assign(1, 0);
  result.validity.clear();
  const size_t width = table::row_bytes(one);
  for (uint64_t cell = 0; cell < cells; ++cell) {
    const uint32_t tile = map.tile_of[cell];
    const bool filled = tile == 0 || parts[tile - 1].row_count == 0;
    const Column& from = filled ? one : parts[tile - 1];
    const uint64_t row = filled ? 0 : map.cell_of[cell];
    const uint64_t begin = one.is_variable() ? from.offsets[row] : row * width;
    const uint64_t end = one.is_variable() ? from.offsets[row + 1] : begin + width;
    result.data.insert(result.data.end(), from.data.begin() + static_cast<ptrdiff_t>(begin),
                       from.data.begin() + static_cast<ptrdiff_t>(end));
    if (one.is_variable()) result.offsets.push_back(result.data.size());
    if (!one.validity.empty())
      result.validity.push_back(from.validity.empty() ? 1 : from.validity[row]);
  }
  return result;
}

template <typename T>
void append_coordinate(int64_t value, std::vector<std::byte>& out) {
  const auto narrow = static_cast<T>(value);
  const auto* bytes = reinterpret_cast<const std::byte*>(&narrow);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

Column coordinates(const ArraySchema& schema, const Geometry& geometry, size_t d) {
  Column column = empty_column(schema.dimensions[d].name, schema.dimensions[d].type, 1);
  column.row_count = geometry.cells;
  for_each_point(geometry.region, [&](std::span<const uint64_t> at) {
    const auto value = static_cast<int64_t>(static_cast<uint64_t>(geometry.origin[d]) + at[d]);
    switch (size_of(column.type)) {
      case 1:
        return append_coordinate<int8_t>(value, column.data);
      case 2:
        return append_coordinate<int16_t>(value, column.data);
      case 4:
        return append_coordinate<int32_t>(value, column.data);
      default:
        return append_coordinate<int64_t>(value, column.data);
    }
  });
  return column;
}

}  // namespace

uint64_t ArrayReader::dense_cell_count() const { return Geometry(*schema_).cells; }

Table ArrayReader::read_dense(const ArrayReadRequest& request) const {
  if (request.filter != nullptr || request.rows != nullptr) {
    throw Unsupported("a filter on a dense array, " + path());
  }
  const Geometry geometry(*schema_);
  CellMap map;
  map.tile_of.resize(geometry.cells);
  map.cell_of.resize(geometry.cells);
  for (size_t f = 0; f < fragments_.size(); ++f) {
    map_fragment(*schema_, geometry, *fragments_[f], f, map);
  }
  std::vector<uint8_t> shown(map.tiles.size());
  for (const uint32_t tile : map.tile_of) {
    if (tile != 0) shown[tile - 1] = 1;
  }

  Table result;
  result.row_count = geometry.cells;
  for (const std::string& name : column_names(request)) {
    if (const auto dimension = schema_->find_dimension(name)) {
      result.columns.push_back(coordinates(*schema_, geometry, *dimension));
      continue;
    }
    const Attribute& attribute = schema_->attributes[*schema_->find_attribute(name)];
    std::vector<Column> parts(map.tiles.size());
    parallel_for(parts.size(), threads_, [&](size_t i) {
      if (shown[i] == 0) return;
      FragmentMetadata& fragment = *fragments_[map.tiles[i].fragment];
      const FragmentField* field = fragment.find_field(name);
      if (field == nullptr) return;
      codec::DecodeScratch scratch;
      parts[i] =
          read_cells(*directory_.store(), fragment, *field, {&map.tiles[i].tile, 1}, scratch);
      if (parts[i].type != attribute.type) {
        throw Unsupported("attribute '" + name + "' changed its type, fragment " +
                          fragment.location().path);
      }
    });
    result.columns.push_back(finish(lay_out(map, parts, fill_cells(attribute, 1)), attribute));
  }
  return result;
}

}  // namespace penstock::format::tiledb
