#pragma once

#include <memory>

#include "format/csr/csr_reader.h"
#include "format/row_reader.h"

namespace penstock::format {

/// Rows of a CSR matrix without codecs, in any order. Rows that are asked for together are decoded
/// together, as a unit is.
class CsrRowReader final : public RowReader {
 public:
  explicit CsrRowReader(std::shared_ptr<const CsrReader> reader);

  const kernel::PackedRowLayout& row_layout() const override { return reader_->row_layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override;
  double buffer_bytes_per_row() const override;
  double packed_bytes_per_row() const override;
  bool prefers_kept() const override { return true; }
  uint64_t bytes_needed(std::span<const int64_t> rows) const override;

 private:
  const std::shared_ptr<const CsrReader> reader_;
  const double elements_per_row_;
};

}  // namespace penstock::format
