#pragma once

#include <memory>
#include <span>
#include <vector>

#include "format/cache/cache_folder.h"
#include "format/cache/unit_cache.h"
#include "format/matrix_source.h"
#include "format/row_file/encode_unit.h"
#include "format/row_file/record_unpacker.h"

// A matrix read through a cache. Units, their order and their estimates are the source's, so an
// epoch is the same whatever is kept. If the unit's row file has the rows, they are read from it.
// Otherwise the unit is decoded with all columns and kept, and its chosen columns are passed on.

namespace penstock::format::pack {

/// Throws Unsupported for a source without content().
MatrixSourcePtr cached_source(MatrixSourcePtr source, std::shared_ptr<CacheFolder> folder);

class CachedReader final : public MatrixReader, public std::enable_shared_from_this<CachedReader> {
 public:
  CachedReader(MatrixSourcePtr source, std::shared_ptr<UnitCache> cache, uint64_t stored_columns,
               std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return unpacker_.layout(); }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  uint64_t fetched_bytes(uint32_t unit) const override;
  bool remote() const override { return all_->remote(); }
  double packed_bytes_per_cell() const override { return chosen_->packed_bytes_per_cell(); }
  double packed_bytes_per_cell_of(uint32_t unit) const override {
    return chosen_->packed_bytes_per_cell_of(unit);
  }
  uint64_t bytes_needed(const RowSelection& rows) const override {
    return chosen_->bytes_needed(rows);
  }
  /// Counts every column, because the cache is filled with every column.
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override {
    return all_->visit_bytes(unit, rows);
  }
  /// Null until every one of the rows is kept.
  RowReaderPtr row_reader(const RowSelection& rows) const override;

  const MatrixSource& source() const noexcept { return *source_; }
  const MatrixReader& all() const noexcept { return *all_; }        ///< with all columns
  const MatrixReader& chosen() const noexcept { return *chosen_; }  ///< with the chosen columns
  const RecordUnpacker& unpacker() const noexcept { return unpacker_; }
  uint64_t stored_columns() const noexcept { return stored_columns_; }
  UnitCache& cache() const noexcept { return *cache_; }

  /// Reads these rows of a unit from the source and keeps them.
  EncodedRows refill(uint32_t unit, const std::vector<int64_t>& rows) const;

 private:
  MatrixSourcePtr source_;
  std::shared_ptr<UnitCache> cache_;
  uint64_t stored_columns_;
  std::vector<int64_t> columns_;
  std::shared_ptr<const MatrixReader> all_;
  std::shared_ptr<const MatrixReader> chosen_;
  RecordUnpacker unpacker_;
};

}  // namespace penstock::format::pack
