#pragma once

#include <memory>
#include <span>
#include <vector>

#include "format/cache/staged_rows.h"
#include "format/matrix_source.h"
#include "format/row_file/encode_unit.h"

namespace penstock::format::pack {

class CachedReader;

/// A unit in flight that is read from the source and kept. It is decoded with all columns: first
/// the phases of the source, then one that encodes records and stages the rows with the chosen
/// columns, then one task that writes the row file.
class FilledUnit final : public UnitDecode {
 public:
  explicit FilledUnit(const CachedReader& reader) : reader_(reader) {}

  /// The rows must live until the last call.
  void start(uint32_t unit, std::span<const int64_t> rows);

  void fetch() override { inner_->fetch(); }
  size_t phase_count() const override { return inner_->phase_count() + 2; }
  size_t task_count(size_t phase) const override;
  void run(size_t phase, size_t task) override;
  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override { return staged_.shape(row).nnz; }
  uint32_t wide_count(uint32_t row) const override { return staged_.shape(row).wide_count; }
  size_t packed_bytes(uint32_t row) const override;
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override { return inner_->bytes_read(); }
  uint64_t read_count() const override { return inner_->read_count(); }
  void take_buffers(UnitDecode& finished) override;

 private:
  void encode(size_t block);
  void keep();

  const CachedReader& reader_;
  uint32_t unit_ = 0;
  std::span<const int64_t> rows_;
  std::unique_ptr<UnitDecode> inner_;  // with all columns; kept for the next unit
  std::vector<EncodedRows> encoded_;   // by block of staged_
  StagedRows staged_;
};

}  // namespace penstock::format::pack
