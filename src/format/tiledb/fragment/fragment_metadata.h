#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/tiledb/directory/array_directory.h"
#include "format/tiledb/fragment/fragment_footer.h"
#include "format/tiledb/fragment/tile_bounds.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/range_coalescing.h"

// One fragment: its footer and, on request, the place of every tile of every field and the bounding
// rectangles of the tiles. Source: format_spec/fragment.md, tiledb/sm/fragment/*.cc.
//
//   auto fragment = FragmentMetadata::load(store, location, schemas);   // reads the footer only
//   fragment->load_tile_bounds();                                        // R-tree
//   auto field = fragment->field("soma_data");
//   fragment->load_tile_offsets(field);                                  // all lists of the field
//   io::ByteRange range = fragment->tile_range(field, TilePart::kData, tile);
//
// Each load_* reads one compressed generic tile per list, inflates it and keeps it flat (8 bytes a
// tile and list). It returns at once if the list is loaded. Load calls may run at the same time,
// and those of different lists do not wait for each other. Accessors are const and lock-free; any
// thread that knows the load to be done may use them. Using one before is `Internal`.

namespace penstock::format::tiledb {

/// Names of the fields that consolidation adds: ordinary uint64 fields with the schema's coordinate
/// filters.
inline constexpr std::string_view kTimestampsField = "__timestamps";                   // t.tdb
inline constexpr std::string_view kDeleteTimestampsField = "__delete_timestamps";      // dt.tdb
inline constexpr std::string_view kDeleteConditionField = "__delete_condition_index";  // dci.tdb

/// A file of a field.
enum class TilePart : uint8_t {
  kData,      ///< a0.tdb: fixed-length values, or the offsets of a variable-length field
  kVar,       ///< a0_var.tdb: the values of a variable-length field
  kValidity,  ///< a0_validity.tdb: one byte a cell
};

/// A field as a fragment stores it.
struct FragmentField {
  std::string name;
  size_t index = 0;  ///< place in the footer's lists
  DataType type = DataType::kInt64;
  uint32_t cell_val_num = 1;
  bool nullable = false;
  bool is_dimension = false;
  const codec::FilterPipeline* filters = nullptr;  ///< lives as long as the fragment
  std::string file_stem;                           ///< "a0", "d1", "t", …

  bool var_length() const noexcept { return cell_val_num == kVarNum; }
  /// Bytes of a cell in the kData file (8 for the offsets of a variable-length field).
  size_t cell_bytes() const { return var_length() ? 8 : size_of(type) * cell_val_num; }
};

class FragmentMetadata {
 public:
  /// Reads the footer from `consolidated` (no I/O) or, if it is not there, from the fragment's own
  /// file (two small reads). `schemas` must hold the schema that the footer names.
  static std::shared_ptr<FragmentMetadata> load(
      io::StorePtr store, const FragmentLocation& location, const ArraySchemas& schemas,
      const ArrayDirectory::ConsolidatedFooters* consolidated = nullptr);

  FragmentMetadata(io::StorePtr store, FragmentLocation location, FragmentFooter footer);
  ~FragmentMetadata();
  FragmentMetadata(const FragmentMetadata&) = delete;
  FragmentMetadata& operator=(const FragmentMetadata&) = delete;

  const FragmentLocation& location() const noexcept { return location_; }
  const FragmentFooter& footer() const noexcept { return footer_; }
  const ArraySchema& schema() const noexcept { return *footer_.schema; }
  bool dense() const noexcept { return footer_.dense; }
  bool has_timestamps() const noexcept { return footer_.has_timestamps; }
  bool has_delete_metadata() const noexcept { return footer_.has_delete_metadata; }

  uint64_t tile_count() const noexcept { return footer_.tile_count; }
  /// Cells of a tile: the capacity, but fewer in the last one. A dense tile is always whole.
  uint64_t tile_cells(uint64_t tile) const noexcept {
    return tile + 1 == footer_.tile_count && !footer_.dense ? footer_.last_tile_cells
                                                            : footer_.cells_per_tile;
  }
  /// Stored cells, including duplicates and deleted cells.
  uint64_t cell_count() const noexcept;

  /// Attributes in the schema's order, dimensions (sparse fragments only), then t, dt, dci if
  /// present.
  const std::vector<FragmentField>& fields() const noexcept { return fields_; }
  /// Returns null if the fragment has no such field (schema evolution may have added it later).
  const FragmentField* find_field(std::string_view name) const noexcept;
  /// Throws `NotFound` that lists the fields.
  const FragmentField& field(std::string_view name) const;

  std::string file_path(const FragmentField& field, TilePart part) const;
  uint64_t file_bytes(const FragmentField& field, TilePart part) const noexcept;

  void load_tile_bounds();                             ///< sparse fragments; MBRs
  void load_tile_offsets(const FragmentField& field);  ///< every part that the field has
  void load_tile_offsets(const FragmentField& field, TilePart part);
  void load_var_tile_sizes(const FragmentField& field);  ///< inflated sizes of kVar tiles
  void load_processed_conditions();

  /// Adds the ranges that the load_* call of the same name will read, unless loaded: for
  /// Store::will_read.
  void add_bounds_range(std::vector<io::ObjectRange>& ranges) const;
  void add_offset_ranges(const FragmentField& field, std::vector<io::ObjectRange>& ranges) const;
  void add_offset_range(const FragmentField& field, TilePart part,
                        std::vector<io::ObjectRange>& ranges) const;

  const TileBounds& tile_bounds() const;
  bool has_tile_offsets(const FragmentField& field, TilePart part) const noexcept;
  /// Place of a tile in its file, checked against the file's size when loaded.
  io::ByteRange tile_range(const FragmentField& field, TilePart part, uint64_t tile) const;
  /// The start of every tile of a file, ascending; the last tile ends at file_bytes.
  std::span<const uint64_t> tile_offsets(const FragmentField& field, TilePart part) const;
  /// Bytes of the decoded values of tile `tile`.
  uint64_t var_tile_bytes(const FragmentField& field, uint64_t tile) const;
  /// Markers of the delete commits that dt.tdb and dci.tdb already include, in the order of dci's
  /// indices.
  const std::vector<std::string>& processed_conditions() const;

  /// Frees the lists of a field, or the bounds, for readers that are done with a fragment.
  void drop_tile_offsets(const FragmentField& field);

  size_t memory_bytes() const noexcept;  ///< of the loaded lists

 private:
  struct List;  // one lazily loaded list of a number per tile
  enum class ListKind : uint8_t { kData, kVar, kValidity, kVarSizes };

  void make_fields();
  List& list(size_t field, ListKind kind) const;
  void load_list(size_t field, ListKind kind);
  void add_list_range(size_t field, ListKind kind, std::vector<io::ObjectRange>& ranges) const;
  io::ObjectRange tile_at(uint64_t offset) const;
  std::string metadata_path() const;

  io::StorePtr store_;
  FragmentLocation location_;
  FragmentFooter footer_;
  std::vector<FragmentField> fields_;
  std::unique_ptr<List[]> lists_;  // footer field * 4 + kind
  struct Lazy;
  std::unique_ptr<Lazy> lazy_;  // bounds and processed conditions with their locks
};

}  // namespace penstock::format::tiledb
