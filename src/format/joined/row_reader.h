#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "format/joined/reader.h"

namespace penstock::format {

/// Reads rows one by one from several matrices that can all address theirs. The rows of a part are
/// read together, and their columns are renumbered where the joined columns differ.
class JoinedRowReader final : public RowReader {
 public:
  /// `parts`: a reader for each part of the matrix, null if none of its rows is asked for.
  JoinedRowReader(std::shared_ptr<const JoinedMatrix> matrix,
                  std::shared_ptr<const JoinedReader> reader, std::vector<RowReaderPtr> parts)
      : matrix_(std::move(matrix)), reader_(std::move(reader)), parts_(std::move(parts)) {}

  const kernel::PackedRowLayout& row_layout() const override { return reader_->row_layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override;
  void prefetch(std::span<const int64_t> rows) const noexcept override;
  double buffer_bytes_per_row() const override;
  bool in_memory() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const RowReaderPtr& part) { return !part || part->in_memory(); });
  }
  bool prefers_kept() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const RowReaderPtr& part) { return part && part->prefers_kept(); });
  }
  uint64_t request_bytes() const override;
  uint64_t bytes_needed(std::span<const int64_t> rows) const override;

 private:
  struct Scratch;
  struct Share;
  /// Splits rows by part, with ids within the part.
  void divide(std::span<const int64_t> rows, std::vector<Share>& shares) const;
  bool rewrites(size_t part) const;

  std::shared_ptr<const JoinedMatrix> matrix_;
  std::shared_ptr<const JoinedReader> reader_;
  std::vector<RowReaderPtr> parts_;
};

}  // namespace penstock::format
