#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "format/cache/staged_rows.h"
#include "format/matrix_source.h"
#include "format/pack/record_rows.h"

namespace penstock::format::pack {

class CachedReader;

/// A unit in flight whose rows are in a row file of the cache.
///
///   phase 0   records are checked and unpacked
///   phase 1   only if one is damaged: the unit is read from the source again, in one task
class KeptUnit final : public UnitDecode {
 public:
  explicit KeptUnit(const CachedReader& reader) : reader_(reader) {}

  /// `file` has all of the rows, which must live until the last call.
  void start(uint32_t unit, std::span<const int64_t> rows, std::shared_ptr<const RowFile> file);
  /// Closes the file.
  void stop() noexcept { file_.reset(); }

  void fetch() override { records_.fetch(); }
  size_t phase_count() const override { return 2; }
  size_t task_count(size_t phase) const override {
    return phase == 0 ? records_.task_count() : damaged_ ? 1 : 0;
  }
  void run(size_t phase, size_t task) override;
  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override {
    return repaired_ ? staged_.shape(row).nnz : records_.nnz(row);
  }
  uint32_t wide_count(uint32_t row) const override {
    return repaired_ ? staged_.shape(row).wide_count : records_.wide_count(row);
  }
  size_t packed_bytes(uint32_t row) const override;
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override { return 0; }
  uint64_t cached_bytes() const override { return records_.bytes_read(); }

 private:
  void repair();

  const CachedReader& reader_;
  uint32_t unit_ = 0;
  std::span<const int64_t> rows_;
  std::shared_ptr<const RowFile> file_;
  std::vector<RowLocation> stored_;
  RecordRows records_;
  std::atomic<bool> damaged_{false};
  bool repaired_ = false;  // rows are in staged_
  StagedRows staged_;
};

}  // namespace penstock::format::pack
