#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "format/cache/cache_folder.h"
#include "format/cache/unit_cache.h"
#include "format/matrix_source.h"
#include "format/pack/record_rows.h"
#include "format/row_file/encode_unit.h"
#include "format/row_file/record_unpacker.h"

// A matrix read through a cache: the source's units, in the source's order, with the source's
// estimates, so that an epoch is the same whatever is kept. A unit comes from its row file if that
// has the rows; else it is decoded with all columns, kept, and handed on with those that were
// chosen.

namespace penstock::format::pack {

/// Throws Unsupported for a source whose content is not known.
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
  /// The cache is filled with every column.
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override {
    return all_->visit_bytes(unit, rows);
  }
  /// Not null once every one of the rows is kept.
  RowReaderPtr row_reader(const RowSelection& rows) const override;

  const MatrixSource& source() const noexcept { return *source_; }
  const MatrixReader& all() const noexcept { return *all_; }        ///< columns
  const MatrixReader& chosen() const noexcept { return *chosen_; }  ///< columns
  const RecordUnpacker& unpacker() const noexcept { return unpacker_; }
  uint64_t stored_columns() const noexcept { return stored_columns_; }
  UnitCache& cache() const noexcept { return *cache_; }

  /// These rows of a unit from the source, kept, at once.
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

/// One unit in flight, which turns out to be one of three when it is fetched.
class CachedDecode final : public UnitDecode {
 public:
  explicit CachedDecode(std::shared_ptr<const CachedReader> reader) : reader_(std::move(reader)) {}

  void start(uint32_t unit, std::vector<int64_t> rows);
  const CachedReader* reader() const noexcept { return reader_.get(); }

  void fetch() override;
  size_t phase_count() const override;
  size_t task_count(size_t phase) const override;
  void run(size_t phase, size_t task) override;
  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override;
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override;
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override;
  uint64_t read_count() const override { return kind_ == Kind::kKept ? 0 : inner_->read_count(); }
  void take_buffers(UnitDecode& finished) override;
  uint64_t cached_bytes() const override { return kind_ == Kind::kKept ? cached_bytes_ : 0; }

 private:
  enum class Kind : uint8_t {
    kKept,    ///< from its row file
    kFilled,  ///< from the source, with all columns, and kept
    kPassed,  ///< from the source, as if there were no cache
  };

  bool fetch_kept();
  void encode(size_t task);
  void keep();
  void mend();
  size_t encode_tasks() const noexcept;

  std::shared_ptr<const CachedReader> reader_;
  Kind kind_ = Kind::kPassed;
  uint32_t unit_ = 0;
  std::vector<int64_t> rows_;
  uint64_t cached_bytes_ = 0;

  std::vector<std::shared_ptr<const RowFile>> file_;  // kKept: one
  std::vector<RowLocation> stored_;
  RecordRows records_;
  std::atomic<bool> damaged_{false};
  bool mended_ = false;  // rows are those that were staged

  std::unique_ptr<UnitDecode> inner_;      // kFilled, kPassed
  std::unique_ptr<UnitDecode> all_spare_;  // finished ones of either reader
  std::unique_ptr<UnitDecode> chosen_spare_;
  std::vector<EncodedRows> encoded_;            // of the tasks
  std::vector<RowShape> shapes_;                // of the rows that are staged
  std::vector<std::vector<std::byte>> staged_;  // of the tasks
  std::vector<size_t> staged_at_;
};

}  // namespace penstock::format::pack
