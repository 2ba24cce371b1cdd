#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/matrix_source.h"
#include "format/tiledb/directory/array_directory.h"
#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"

// A 2-D dense array: its grid of space tiles and its fragments. Loaded once, immutable, shared by
// readers.
//
// A fragment stores the whole tiles that its box touches, in tile order, but only cells inside the
// box were written. Cells of a later fragment hide those of an earlier one. A cell that was never
// written has the fill value. Source: format_spec/fragment.md,
// tiledb/sm/query/readers/dense_reader.cc.

namespace penstock::format::soma {

/// Rows and columns from first to last, both inclusive.
struct XBox {
  int64_t row_first = 0, row_last = -1;
  int64_t column_first = 0, column_last = -1;

  bool empty() const noexcept { return row_first > row_last || column_first > column_last; }
};

XBox intersect(const XBox& a, const XBox& b) noexcept;

struct XDenseFragment {
  std::shared_ptr<tiledb::FragmentMetadata> metadata;
  const tiledb::FragmentField* field = nullptr;
  std::string path;
  XBox written;
  int64_t grid_row = 0, grid_column = 0;    ///< of its first tile
  int64_t grid_rows = 0, grid_columns = 0;  ///< its tiles
};

class XDenseArray {
 public:
  static std::shared_ptr<const XDenseArray> load(const io::StorePtr& store, const std::string& path,
                                                 tiledb::TimeRange range, unsigned threads);

  const io::Store& store() const noexcept { return *store_; }
  const MatrixInfo& info() const noexcept { return info_; }
  const std::vector<plan::FetchUnit>& units() const noexcept { return units_; }
  const std::vector<XDenseFragment>& fragments() const noexcept {
    return fragments_;
  }  ///< oldest first
  std::span<const std::byte> fill_value() const noexcept { return fill_value_; }

  int64_t row_extent() const noexcept { return extents_[0]; }
  int64_t column_extent() const noexcept { return extents_[1]; }
  uint64_t tile_cells() const noexcept {
    return static_cast<uint64_t>(extents_[0]) * static_cast<uint64_t>(extents_[1]);
  }
  bool cells_row_major() const noexcept { return cells_row_major_; }

  int64_t grid_row_of(int64_t row) const noexcept { return (row - origins_[0]) / extents_[0]; }
  int64_t grid_column_of(int64_t column) const noexcept {
    return (column - origins_[1]) / extents_[1];
  }
  /// Rows and columns of a tile of the grid, clipped to the domain.
  XBox box_of(int64_t grid_row, int64_t grid_column) const noexcept;
  /// First row and column of a tile; cells are counted from there.
  int64_t tile_row(int64_t grid_row) const noexcept { return origins_[0] + grid_row * extents_[0]; }
  int64_t tile_column(int64_t grid_column) const noexcept {
    return origins_[1] + grid_column * extents_[1];
  }
  /// Number of a tile within a fragment that has it.
  uint64_t tile_number(const XDenseFragment& fragment, int64_t grid_row,
                       int64_t grid_column) const noexcept;
  bool has_tile(const XDenseFragment& fragment, int64_t grid_row,
                int64_t grid_column) const noexcept;

 private:
  /// Of no fragments yet. Throws CorruptData or Unsupported if the schema has no grid of tiles.
  XDenseArray(io::StorePtr store, const std::string& path, const tiledb::ArraySchema& schema);

  void load_fragments(const tiledb::ArrayDirectory& directory, const tiledb::ArraySchemas& schemas,
                      const std::string& attribute, unsigned threads);
  XDenseFragment open_fragment(std::shared_ptr<tiledb::FragmentMetadata> metadata,
                               const std::string& attribute) const;
  XBox checked_box(const tiledb::FragmentMetadata& metadata) const;
  void make_units();

  io::StorePtr store_;
  MatrixInfo info_;
  std::vector<std::byte> fill_value_;
  int64_t origins_[2];
  int64_t extents_[2];
  bool cells_row_major_;
  bool tiles_row_major_;
  std::vector<XDenseFragment> fragments_;
  std::vector<plan::FetchUnit> units_;
};

}  // namespace penstock::format::soma
