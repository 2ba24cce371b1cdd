#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/threads/mutex.h"
#include "format/cache/cached_source.h"
#include "format/pack/reader.h"
#include "format/row_reader.h"

// Rows one by one from a cache that has all of them. Files that are damaged, or evicted while an
// epoch runs, are rebuilt from the source, unit by unit.

namespace penstock::format::pack {

class CachedRowReader final : public RowReader {
 public:
  /// `layer`: the kept files. `rows`: the rows that will be read.
  CachedRowReader(std::shared_ptr<const CachedReader> reader,
                  std::shared_ptr<const PackedLayer> layer, std::span<const int64_t> columns,
                  RowSelection rows);

  const kernel::PackedRowLayout& row_layout() const override { return kept_->row_layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override;
  void prefetch(std::span<const int64_t> rows) const noexcept override { kept_->prefetch(rows); }
  double buffer_bytes_per_row() const override;
  uint64_t bytes_needed(std::span<const int64_t> rows) const override {
    return kept_->bytes_needed(rows);
  }

 private:
  struct Parts;
  uint32_t unit_of(int64_t row) const;
  bool read_apart(std::span<const int64_t> rows, RowBuffer& out) const;
  /// Rebuilds the unit unless another thread has. `failed`: the reader that failed, null for the
  /// kept files.
  void repair(uint32_t unit, const RowReader* failed) const;
  RowReaderPtr repaired(uint32_t unit) const;

  std::shared_ptr<const CachedReader> reader_;
  std::vector<int64_t> columns_;
  RowSelection rows_;
  std::shared_ptr<const PackedLayer> layer_;
  RowReaderPtr kept_;
  mutable std::atomic<bool> any_repaired_{false};
  mutable Mutex mutex_;
  mutable std::map<uint32_t, RowReaderPtr> repaired_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::format::pack
