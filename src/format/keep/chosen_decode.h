#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/memory/buffer.h"
#include "format/matrix_source.h"
#include "format/row_reader.h"

namespace penstock::format {

/// One unit in flight whose rows are kept with more columns than are chosen: the chosen entries are
/// copied out of them.
class ChosenDecode final : public UnitDecode {
 public:
  explicit ChosenDecode(RowReaderPtr kept) : kept_(std::move(kept)) {}

  const RowReader* rows() const noexcept { return kept_.get(); }
  void start(std::vector<int64_t> rows);

  void fetch() override {}
  size_t phase_count() const override { return 1; }
  size_t task_count(size_t /*phase*/) const override { return parts_.size(); }
  void run(size_t phase, size_t task) override;

  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override { return header(row).nnz; }
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override { return header(row).wide_count; }
  void pack(uint32_t row, std::byte* destination) const override;

  uint64_t bytes_read() const override { return 0; }
  bool was_kept() const override { return true; }

 private:
  const std::byte* record(uint32_t row) const noexcept;
  kernel::PackedRowHeader header(uint32_t row) const noexcept;

  const RowReaderPtr kept_;
  std::vector<int64_t> rows_;
  std::vector<Buffer> parts_;  ///< records, by task
  std::vector<size_t> at_;     ///< of each row in its part
};

}  // namespace penstock::format
