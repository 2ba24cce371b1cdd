#pragma once

#include <penstock/row_selection.h>
#include <penstock/table.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/tiledb/condition/condition_evaluation.h"
#include "format/tiledb/directory/array_directory.h"
#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/reader/array_reader_overlap.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"
#include "table/filter_expression.h"

// Reads any columns (dimensions and attributes) of any TileDB array as typed columns.
//
//   auto reader = ArrayReader::open(store, path, {}, threads);   // schemas and footers
//   Table table = reader->read({.columns = {"soma_joinid", "cell_type"}, .filter = &bound});
//
// A sparse array's tiles are split into runs of about 100,000 cells, which threads read, decode and
// filter independently. The fields of the filter are read first, the others only for runs where
// cells are left. Each cell is checked in TileDB's order: current domain of the schema that is read
// (an older schema under time travel), time range (t.tdb), newest of its duplicates, deletes,
// filter. Coordinates are compared only for fragments that overlap others or may repeat cells
// themselves. A dense array returns every cell of its (current) domain in row-major order, with the
// newest fragment's value or the fill value.
//
// Immutable after open and safe from any thread; tile metadata is loaded when first needed.

namespace penstock::format::tiledb {

struct ArrayReadRequest {
  std::vector<std::string> columns;            ///< in this order; empty: all
  const table::BoundFilter* filter = nullptr;  ///< bound to columns()
  /// Only cells whose coordinate along integer dimension `row_dimension` is one of these.
  const RowSelection* rows = nullptr;
  size_t row_dimension = 0;
};

class ArrayReader {
 public:
  /// Throws `NotFound` if there is no array at `path`.
  static std::shared_ptr<const ArrayReader> open(io::StorePtr store, const std::string& path,
                                                 TimeRange range = {}, unsigned threads = 0);

  ~ArrayReader();
  ArrayReader(const ArrayReader&) = delete;
  ArrayReader& operator=(const ArrayReader&) = delete;

  const std::string& path() const noexcept { return directory_.path(); }
  const ArrayDirectory& directory() const noexcept { return directory_; }
  const ArraySchema& schema() const noexcept { return *schema_; }
  unsigned threads() const noexcept { return threads_; }
  const std::vector<std::shared_ptr<FragmentMetadata>>& fragments() const noexcept {
    return fragments_;
  }

  /// Dimensions, then attributes. Reads enumerations once.
  const std::vector<ColumnInfo>& columns() const;
  /// Throws `NotFound` that lists the columns.
  const ColumnInfo& column(std::string_view name) const;

  /// Sparse: cells as stored, fragment by fragment, in order along the first dimension if fragments
  /// do not overlap, otherwise by age. Dense: row-major.
  Table read(const ArrayReadRequest& request) const;

  /// Sparse: calls `consume(run, table)` for each run when it is done, from many threads. Run
  /// numbers are below run_count and ascend in the order of read(). Returns run_count.
  size_t read_runs(const ArrayReadRequest& request,
                   const std::function<void(size_t run, Table&& table)>& consume) const;

  /// Number of cells that read({}) returns. Decodes coordinates only if it must.
  uint64_t cell_count() const;

  /// True if read() returns ascending coordinates: one integer dimension, fragments that do not
  /// overlap, row-major or column-major cells.
  bool ascending() const noexcept { return ascending_; }

  /// The coordinates of the one integer dimension if footers alone tell them (no deletes, no
  /// overlap, no gap within a fragment); otherwise nothing.
  std::optional<RowSelection> coordinates_without_reading() const;

 private:
  struct Run;      // tiles of one fragment that are read together
  class RunCells;  // a run while it is being read
  struct OnDemand;

  ArrayReader(ArrayDirectory directory, unsigned threads);
  void open_fragments(const ArraySchemas& schemas);
  void find_overlaps();
  void find_outside_domain();
  const ReplacedCells& replaced_cells() const;

  std::shared_ptr<const Categories> categories(const Attribute& attribute) const;
  std::vector<std::string> column_names(const ArrayReadRequest& request) const;
  Table empty_table(const ArrayReadRequest& request) const;
  std::vector<Run> plan_runs(const ArrayReadRequest& request) const;
  void announce_lists(const std::vector<std::string>& names, bool by_row) const;
  size_t announce_tiles(const std::vector<Run>& runs, size_t begin,
                        const std::vector<std::string>& names) const;
  Table read_run(const Run& run, const ArrayReadRequest& request,
                 const std::vector<std::string>& names) const;
  Column finish(Column&& raw, const Attribute& attribute) const;
  Table read_dense(const ArrayReadRequest& request) const;
  uint64_t dense_cell_count() const;

  ArrayDirectory directory_;
  unsigned threads_ = 0;
  ArraySchemaPtr schema_;
  std::vector<std::shared_ptr<FragmentMetadata>> fragments_;  // oldest first
  std::vector<size_t> read_order_;                            // indices into fragments_
  std::vector<uint8_t> overlapping_;  // by fragment: its cells may be repeated, elsewhere or in it
  std::vector<uint8_t> outside_;      // by fragment: some cells may lie outside the current domain
  bool ascending_ = false;
  DeleteFilter deletes_;
  std::unique_ptr<OnDemand> lazy_;
};

/// Reads columns of an array at a path or URI (empty: all), visible in [timestamp_start,
/// timestamp_end]. For tests and interactive use: the whole result is in memory.
Table read_array(const std::string& uri, const std::vector<std::string>& columns,
                 uint64_t timestamp_start, uint64_t timestamp_end, unsigned threads);

}  // namespace penstock::format::tiledb
