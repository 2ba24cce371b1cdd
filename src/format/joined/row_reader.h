#pragma once

#include <memory>
#include <vector>

#include "format/joined/reader.h"

namespace penstock::format {

/// Rows one by one of several matrices that can all address theirs: each part's are read together
/// and written again under the joined columns' numbers, where these are others.
class JoinedRowReader final : public RowReader {
 public:
  /// `parts`: of each part of the matrix; null where no row of it is asked for.
  JoinedRowReader(std::shared_ptr<const JoinedMatrix> matrix,
                  std::shared_ptr<const JoinedReader> reader, std::vector<RowReaderPtr> parts)
      : matrix_(std::move(matrix)), reader_(std::move(reader)), parts_(std::move(parts)) {}

  const kernel::PackedRowLayout& row_layout() const override { return reader_->row_layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override;
  void prefetch(std::span<const int64_t> rows) const noexcept override;
  double buffer_bytes_per_row() const override;
  uint64_t request_bytes() const override;
  uint64_t bytes_needed(std::span<const int64_t> rows) const override;

 private:
  struct Scratch;
  struct Share;
  /// Rows by part, ids within it.
  void divide(std::span<const int64_t> rows, std::vector<Share>& shares) const;
  bool rewrites(size_t part) const;

  std::shared_ptr<const JoinedMatrix> matrix_;
  std::shared_ptr<const JoinedReader> reader_;
  std::vector<RowReaderPtr> parts_;
};

}  // namespace penstock::format
