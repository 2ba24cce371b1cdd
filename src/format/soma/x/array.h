#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/matrix_source.h"
#include "format/soma/x/tile_tree.h"
#include "format/tiledb/condition/condition_evaluation.h"
#include "format/tiledb/directory/array_directory.h"
#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"

// A 2-D sparse array as the X reader uses it: its fragments with the place and the bounds of every
// tile, and how each fragment must be decoded. Loaded once, immutable, shared by all readers.
//
// Tiles stay in FragmentMetadata (56 bytes each). A tree of their row intervals finds the tiles of
// a fetch unit.

namespace penstock::format::soma {

/// A tile of the array, by fragment and tile number.
struct XTileId {
  uint32_t fragment = 0;
  uint64_t tile = 0;
};

struct XTileBounds {
  int64_t row_first = 0, row_last = 0;
  int64_t column_first = 0, column_last = 0;
};

/// The files of a fragment that X is read from.
enum class XPart : uint8_t { kRows, kColumns, kValues, kTimestamps, kDeleteTimestamps };
inline constexpr size_t kXPartCount = 5;

struct XFragment {
  std::shared_ptr<tiledb::FragmentMetadata> metadata;
  const tiledb::FragmentField* fields[kXPartCount] = {};  ///< null for absent fields
  std::string paths[kXPartCount];
  uint64_t first_timestamp = 0;  ///< of cells without their own timestamp
  tiledb::FragmentDeletes deletes;
  bool column_major = false;  ///< cells are not in row-major order within a space tile
  bool filter_time = false;   ///< only cells whose own timestamp is in the array's time range
  /// Decoded cell by cell, with t.tdb and dt.tdb if present; otherwise by runs.
  bool general = false;
  XTileTree tree;

  const tiledb::FragmentField& field(XPart part) const {
    return *fields[static_cast<size_t>(part)];
  }
  bool has(XPart part) const { return fields[static_cast<size_t>(part)] != nullptr; }
  const std::string& path(XPart part) const { return paths[static_cast<size_t>(part)]; }
  io::ByteRange range(XPart part, uint64_t tile) const {
    return metadata->tile_range(field(part), tiledb::TilePart::kData, tile);
  }
  uint64_t cells(uint64_t tile) const { return metadata->tile_cells(tile); }
  XTileBounds bounds(uint64_t tile) const noexcept {
    const int64_t* box = metadata->tile_bounds().int64_rows().data() + tile * 4;
    return {box[0], box[1], box[2], box[3]};
  }
  /// Whether a part is read with every tile.
  bool reads(XPart part) const;
  uint64_t stored_bytes(uint64_t tile) const;
  std::string place(uint64_t tile) const;  ///< for error messages
};

class XArray {
 public:
  /// Reads footers, R-trees and tile offsets with `threads` threads. Throws Unsupported unless the
  /// array has two int64 dimensions and one number a cell.
  static std::shared_ptr<const XArray> load(const io::StorePtr& store, const std::string& path,
                                            tiledb::TimeRange range, unsigned threads);

  const io::Store& store() const noexcept { return *store_; }
  const MatrixInfo& info() const noexcept { return info_; }
  const std::vector<plan::FetchUnit>& units() const noexcept { return units_; }
  const std::vector<XFragment>& fragments() const noexcept { return fragments_; }
  const tiledb::TimeRange& time_range() const noexcept { return range_; }
  bool allows_duplicates() const noexcept { return allows_duplicates_; }

  /// Returns the tiles with rows in [row_begin, row_end), by fragment, then number.
  std::vector<XTileId> tiles_of(int64_t row_begin, int64_t row_end) const;

 private:
  void open_fragments(const tiledb::ArrayDirectory& directory, const tiledb::ArraySchemas& schemas,
                      const tiledb::ArraySchema& schema, unsigned threads);
  void check_file_sizes(unsigned threads) const;
  void load_tile_lists(unsigned threads);
  void choose_general(const tiledb::ArraySchema& schema);
  void make_units(const tiledb::ArraySchema& schema);

  io::StorePtr store_;
  tiledb::TimeRange range_;
  MatrixInfo info_;
  bool allows_duplicates_ = false;
  std::string value_name_;
  std::vector<XFragment> fragments_;
  std::vector<plan::FetchUnit> units_;
};

}  // namespace penstock::format::soma
