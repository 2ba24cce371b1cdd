#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "format/beside/reader.h"

namespace penstock::format {

/// Reads rows one by one from matrices beside one another that can all address theirs.
class BesideRowReader final : public RowReader {
 public:
  /// `readers`: one for each part of the reader.
  BesideRowReader(std::shared_ptr<const BesideReader> reader, std::vector<RowReaderPtr> readers)
      : reader_(std::move(reader)), readers_(std::move(readers)) {}

  const kernel::PackedRowLayout& row_layout() const override { return reader_->row_layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override;
  void prefetch(std::span<const int64_t> rows) const noexcept override;
  double buffer_bytes_per_row() const override;
  double packed_bytes_per_row() const override;
  bool in_memory() const override {
    return std::all_of(readers_.begin(), readers_.end(),
                       [](const RowReaderPtr& part) { return part->in_memory(); });
  }
  bool prefers_kept() const override {
    return std::any_of(readers_.begin(), readers_.end(),
                       [](const RowReaderPtr& part) { return part->prefers_kept(); });
  }
  uint64_t request_bytes() const override;
  uint64_t bytes_needed(std::span<const int64_t> rows) const override;

 private:
  struct Scratch;
  /// The rows that a part has, and the place of each among `rows`.
  struct Share {
    std::vector<int64_t> rows;
    std::vector<size_t> places;
  };
  void choose(std::span<const int64_t> rows, size_t part, Share& share) const;

  std::shared_ptr<const BesideReader> reader_;
  std::vector<RowReaderPtr> readers_;
};

}  // namespace penstock::format
