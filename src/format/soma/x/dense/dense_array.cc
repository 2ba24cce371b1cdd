#include "format/soma/x/dense/dense_array.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/checked.h"
#include "base/parallel.h"
#include "format/soma/x/schema.h"

namespace penstock::format::soma {
namespace {

constexpr uint64_t kMaxTileCells = uint64_t{1} << 31;

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
  const tiledb::Attribute& value = matrix_attribute(schema, path);

  auto array = std::make_shared<XDenseArray>();
  array->store_ = store;
  array->info_.value_type = value.type;
  array->info_.layout = layout_text(schema);
  array->info_.row_domain_end = domain_end(schema, 0);
  array->info_.column_domain_end = domain_end(schema, 1);
  array->fill_value_ = value.fill_value;
  if (value.fill_value.size() != size_of(value.type)) {
    throw CorruptData("fill value of " + std::to_string(value.fill_value.size()) + " bytes, in " +
                      path);
  }
  for (size_t i = 0; i < 2; ++i) {
    array->origins_[i] = schema.dimensions[i].domain_min();
    array->extents_[i] = schema.dimensions[i].extent();
    if (array->extents_[i] <= 0) {
      throw CorruptData("dense array without a tile extent, in " + path);
    }
  }
  if (checked_mul<uint64_t>(static_cast<uint64_t>(array->extents_[0]),
                            static_cast<uint64_t>(array->extents_[1]), "tile") > kMaxTileCells) {
    throw Unsupported("a tile of more than " + std::to_string(kMaxTileCells) + " cells (" +
                      array->info_.layout + "); write a copy of the array with smaller tiles, in " +
                      path);
  }
  array->cells_row_major_ = schema.cell_order == tiledb::Layout::kRowMajor;
  array->tiles_row_major_ = schema.tile_order == tiledb::Layout::kRowMajor;

  const auto locations = directory.fragments(true);
  const auto consolidated = directory.load_consolidated_footers(locations);
  std::vector<XDenseFragment> all(locations.size());
  parallel_for(locations.size(), threads, [&](size_t i) {
    all[i].metadata = tiledb::FragmentMetadata::load(store, locations[i], schemas, &consolidated);
    array->open_fragment(all[i], value.name);
  });
  for (XDenseFragment& fragment : all) {
    if (!fragment.written.empty()) array->fragments_.push_back(std::move(fragment));
  }
  array->make_units();
  return array;
}

void XDenseArray::open_fragment(XDenseFragment& fragment, const std::string& name) {
  tiledb::FragmentMetadata& metadata = *fragment.metadata;
  const std::string& place = metadata.location().path;
  if (!metadata.dense()) {
    throw Unsupported("fragment " + place +
                      " is sparse in a dense array; consolidate it with TileDB 2.7 or older");
  }
  const auto& box = metadata.footer().non_empty_domain;
  if (box.empty()) return;
  fragment.field = &metadata.field(name);
  if (fragment.field->type != info_.value_type || fragment.field->cell_val_num != 1 ||
      fragment.field->nullable) {
    throw Unsupported("a fragment has another type than its array: " +
                      std::string(name_of(fragment.field->type)) + ", the array has " +
                      std::string(name_of(info_.value_type)) +
                      "; write a copy of the array through tiledbsoma, in " + place);
  }
  const XBox stated = {box[0].min_as<int64_t>(), box[0].max_as<int64_t>(), box[1].min_as<int64_t>(),
                       box[1].max_as<int64_t>()};
  if (stated.empty() || stated.row_first < origins_[0] || stated.column_first < origins_[1]) {
    throw CorruptData("box of a fragment outside its array: " + place);
  }
  fragment.grid_row = grid_row_of(stated.row_first);
  fragment.grid_column = grid_column_of(stated.column_first);
  fragment.grid_rows = grid_row_of(stated.row_last) - fragment.grid_row + 1;
  fragment.grid_columns = grid_column_of(stated.column_last) - fragment.grid_column + 1;
  const auto tiles = checked_mul<uint64_t>(static_cast<uint64_t>(fragment.grid_rows),
                                           static_cast<uint64_t>(fragment.grid_columns), "tiles");
  if (tiles != metadata.tile_count() || metadata.tile_cells(0) != tile_cells()) {
    throw CorruptData("dense fragment of " + std::to_string(metadata.tile_count()) +
                      " tiles covers " + std::to_string(tiles) + ": " + place);
  }
  fragment.path = metadata.file_path(*fragment.field, tiledb::TilePart::kData);
  const uint64_t bytes = metadata.file_bytes(*fragment.field, tiledb::TilePart::kData);
  const uint64_t found = store_->size_bytes(fragment.path);
  if (found < bytes) {
    throw CorruptData("file is cut short: " + std::to_string(found) + " bytes of " +
                      std::to_string(bytes) + ", in " + fragment.path);
  }
  metadata.load_tile_offsets(*fragment.field, tiledb::TilePart::kData);
  const XBox domain = {0, info_.row_domain_end - 1, 0, info_.column_domain_end - 1};
  fragment.written = intersect(stated, domain);
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
  // Cells that nobody wrote show the fill value, so every row of the domain has something to tell.
  if (std::any_of(fill_value_.begin(), fill_value_.end(),
                  [](std::byte b) { return b != std::byte{0}; })) {
    row_end = info_.row_domain_end;
  }
  if (row_end != 0) units_ = plan::make_fetch_units(tiles, 0, row_end);
  append_empty_units(units_, row_end, info_.row_domain_end);
}

}  // namespace penstock::format::soma
