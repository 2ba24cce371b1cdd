#include "format/soma/x/dense/dense_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/soma/x/schema.h"

namespace penstock::format::soma {
namespace {

constexpr uint64_t kMaxTileCells = uint64_t{1} << 31;

std::string text_of(const XBox& box) {
  return "rows " + std::to_string(box.row_first) + " to " + std::to_string(box.row_last) +
         " and columns " + std::to_string(box.column_first) + " to " +
         std::to_string(box.column_last);
}

}  // namespace

XBox intersect(const XBox& a, const XBox& b) noexcept {
  return {std::max(a.row_first, b.row_first), std::min(a.row_last, b.row_last),
          std::max(a.column_first, b.column_first), std::min(a.column_last, b.column_last)};
}

std::shared_ptr<const XDenseArray> XDenseArray::load(const io::StorePtr& store,
                                                     const std::string& path,
                                                     tiledb::TimeRange range, unsigned threads) {
  const auto directory = tiledb::ArrayDirectory::load(store, path, range);
  const auto schemas = directory.load_schemas();
  const auto found = schemas.find(directory.latest_schema_name());
  if (found == schemas.end()) throw NotFound("no schema, in " + path);
  const tiledb::ArraySchema& schema = *found->second;
  check_matrix_schema(schema, path);
  std::shared_ptr<XDenseArray> array(new XDenseArray(store, path, schema));
  array->load_fragments(directory, schemas, matrix_attribute(schema, path).name, threads);
  array->make_units();
  return array;
}

XDenseArray::XDenseArray(io::StorePtr store, const std::string& path,
                         const tiledb::ArraySchema& schema)
    : store_(std::move(store)),
      origins_{schema.dimensions[0].domain_min(), schema.dimensions[1].domain_min()},
      extents_{schema.dimensions[0].extent(), schema.dimensions[1].extent()},
      cells_row_major_(schema.cell_order == tiledb::Layout::kRowMajor),
      tiles_row_major_(schema.tile_order == tiledb::Layout::kRowMajor) {
  const tiledb::Attribute& value = matrix_attribute(schema, path);
  info_.value_type = value.type;
  info_.layout = layout_text(schema);
  info_.row_domain_end = domain_end(schema, 0);
  info_.column_domain_end = domain_end(schema, 1);
  fill_value_ = value.fill_value;
  if (fill_value_.size() != size_of(value.type)) {
    throw CorruptData(concat("a fill value of type ", name_of(value.type), " must have ",
                             size_of(value.type), " bytes, got ", fill_value_.size(), ", in ",
                             path));
  }
  for (size_t d = 0; d < 2; ++d) {
    if (extents_[d] > 0) continue;
    throw CorruptData(
        concat("a dense array must have tiles of at least 1 cell, got a tile extent of ",
               extents_[d], " for dimension '", schema.dimensions[d].name, "', in ", path));
  }
  if (checked_mul<uint64_t>(static_cast<uint64_t>(extents_[0]), static_cast<uint64_t>(extents_[1]),
                            "tile") > kMaxTileCells) {
    throw Unsupported(concat("a tile of more than ", kMaxTileCells, " cells (", info_.layout,
                             "); write a copy of the array with smaller tiles, in ", path));
  }
}

void XDenseArray::load_fragments(const tiledb::ArrayDirectory& directory,
                                 const tiledb::ArraySchemas& schemas, const std::string& attribute,
                                 unsigned threads) {
  const auto locations = directory.fragments(true);
  const auto consolidated = directory.load_consolidated_footers(locations);
  std::vector<XDenseFragment> all(locations.size());
  parallel_for(locations.size(), threads, [&](size_t i) {
    all[i] = open_fragment(
        tiledb::FragmentMetadata::load(store_, locations[i], schemas, &consolidated), attribute);
  });
  for (XDenseFragment& fragment : all) {
    if (!fragment.written.empty()) fragments_.push_back(std::move(fragment));
  }
}

/// `written` is empty if the fragment has no cells in the domain.
XDenseFragment XDenseArray::open_fragment(std::shared_ptr<tiledb::FragmentMetadata> loaded,
                                          const std::string& attribute) const {
  XDenseFragment fragment;
  fragment.metadata = std::move(loaded);
  tiledb::FragmentMetadata& metadata = *fragment.metadata;
  const std::string& place = metadata.location().path;
  if (!metadata.dense()) {
    throw Unsupported("fragment " + place +
                      " is sparse in a dense array; consolidate it with TileDB 2.7 or older");
  }
  if (metadata.footer().non_empty_domain.empty()) return fragment;
  fragment.field = &metadata.field(attribute);
  if (fragment.field->type != info_.value_type || fragment.field->cell_val_num != 1 ||
      fragment.field->nullable) {
    throw Unsupported("a fragment has another type than its array: " +
                      std::string(name_of(fragment.field->type)) + ", the array has " +
                      std::string(name_of(info_.value_type)) +
                      "; write a copy of the array through tiledbsoma, in " + place);
  }
  const XBox box = checked_box(metadata);
  fragment.grid_row = grid_row_of(box.row_first);
  fragment.grid_column = grid_column_of(box.column_first);
  fragment.grid_rows = grid_row_of(box.row_last) - fragment.grid_row + 1;
  fragment.grid_columns = grid_column_of(box.column_last) - fragment.grid_column + 1;
  const auto tiles = checked_mul<uint64_t>(static_cast<uint64_t>(fragment.grid_rows),
                                           static_cast<uint64_t>(fragment.grid_columns), "tiles");
  if (tiles != metadata.tile_count() || metadata.tile_cells(0) != tile_cells()) {
    throw CorruptData(concat("a dense fragment with ", text_of(box), " must have ", tiles,
                             " tiles of ", tile_cells(), " cells, got ", metadata.tile_count(),
                             " of ", metadata.tile_cells(0), ", in ", place));
  }
  fragment.path = metadata.file_path(*fragment.field, tiledb::TilePart::kData);
  const uint64_t bytes = metadata.file_bytes(*fragment.field, tiledb::TilePart::kData);
  const uint64_t found = store_->size_bytes(fragment.path);
  if (found < bytes) {
    throw CorruptData(
        concat("file is cut short: ", found, " bytes of ", bytes, ", in ", fragment.path));
  }
  metadata.load_tile_offsets(*fragment.field, tiledb::TilePart::kData);
  const XBox domain = {0, info_.row_domain_end - 1, 0, info_.column_domain_end - 1};
  fragment.written = intersect(box, domain);
  return fragment;
}

/// The rows and columns that a fragment says it has. The last ones may be behind the domain.
XBox XDenseArray::checked_box(const tiledb::FragmentMetadata& metadata) const {
  const auto& range = metadata.footer().non_empty_domain;
  const XBox box = {range[0].min_as<int64_t>(), range[0].max_as<int64_t>(),
                    range[1].min_as<int64_t>(), range[1].max_as<int64_t>()};
  if (!box.empty() && box.row_first >= origins_[0] && box.column_first >= origins_[1]) return box;
  throw CorruptData(concat("a fragment has ", text_of(box), ", but its array begins at row ",
                           origins_[0], " and column ", origins_[1], ", in ",
                           metadata.location().path));
}

XBox XDenseArray::box_of(int64_t grid_row, int64_t grid_column) const noexcept {
  const XBox domain = {0, info_.row_domain_end - 1, 0, info_.column_domain_end - 1};
  const int64_t row = tile_row(grid_row);
  const int64_t column = tile_column(grid_column);
  return intersect({row, row + extents_[0] - 1, column, column + extents_[1] - 1}, domain);
}

bool XDenseArray::has_tile(const XDenseFragment& fragment, int64_t grid_row,
                           int64_t grid_column) const noexcept {
  return grid_row >= fragment.grid_row && grid_row < fragment.grid_row + fragment.grid_rows &&
         grid_column >= fragment.grid_column &&
         grid_column < fragment.grid_column + fragment.grid_columns;
}

uint64_t XDenseArray::tile_number(const XDenseFragment& fragment, int64_t grid_row,
                                  int64_t grid_column) const noexcept {
  const int64_t row = grid_row - fragment.grid_row;
  const int64_t column = grid_column - fragment.grid_column;
  return static_cast<uint64_t>(tiles_row_major_ ? row * fragment.grid_columns + column
                                                : column * fragment.grid_rows + row);
}

void XDenseArray::make_units() {
  std::vector<plan::TileRows> tiles;
  int64_t row_end = 0;
  for (const XDenseFragment& fragment : fragments_) {
    row_end = std::max(row_end, fragment.written.row_last + 1);
    for (int64_t r = 0; r < fragment.grid_rows; ++r) {
      for (int64_t c = 0; c < fragment.grid_columns; ++c) {
        const int64_t grid_row = fragment.grid_row + r;
        const int64_t grid_column = fragment.grid_column + c;
        const XBox box = intersect(fragment.written, box_of(grid_row, grid_column));
        if (box.empty()) continue;
        const uint64_t number = tile_number(fragment, grid_row, grid_column);
        const uint64_t bytes =
            fragment.metadata->tile_range(*fragment.field, tiledb::TilePart::kData, number).length;
        const auto cells = static_cast<uint64_t>(box.row_last - box.row_first + 1) *
                           static_cast<uint64_t>(box.column_last - box.column_first + 1);
        tiles.push_back({box.row_first, box.row_last, cells, bytes});
        info_.stored_cells += cells;
        info_.stored_bytes += bytes;
      }
    }
  }
  info_.tile_count = tiles.size();
  info_.fragment_count = static_cast<uint32_t>(fragments_.size());
  // Cells that were never written have the fill value, so every row of the domain may have cells.
  if (std::any_of(fill_value_.begin(), fill_value_.end(),
                  [](std::byte b) { return b != std::byte{0}; })) {
    row_end = info_.row_domain_end;
  }
  if (row_end != 0) units_ = plan::make_fetch_units(tiles, 0, row_end);
  append_empty_units(units_, row_end, info_.row_domain_end);
}

}  // namespace penstock::format::soma
