#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "format/pack/packed_layer.h"
#include "format/row_file/record_unpacker.h"

// Locates, reads, checks and unpacks some rows of row files. Shared by the units of packs and of
// caches, and driven like a UnitDecode with one phase.
//
// With a choice of columns, tasks unpack the rows. With all columns, pack() unpacks them straight
// to their destination.

namespace penstock::format::pack {

class RecordRows {
 public:
  /// `stored`: places in `files` of the rows, ascending. All arguments must live until the last
  /// call.
  void start(std::span<const int64_t> rows, std::span<const RowLocation> stored,
             std::span<const std::shared_ptr<const RowFile>> files, const RecordUnpacker& unpacker);

  void fetch();
  size_t task_count() const noexcept;
  void run(size_t task);

  uint32_t nnz(uint32_t row) const { return shapes_[row].nnz; }
  uint32_t wide_count(uint32_t row) const { return shapes_[row].wide_count; }
  size_t packed_bytes(uint32_t row) const {
    return unpacker_->layout().record_bytes(shapes_[row].nnz, shapes_[row].wide_count);
  }
  void pack(uint32_t row, std::byte* destination) const;
  uint64_t bytes_read() const noexcept { return bytes_read_; }
  uint64_t read_count() const noexcept { return read_count_; }

 private:
  std::span<const std::byte> record(size_t row) const;
  std::string place(size_t row) const;

  std::span<const int64_t> rows_;
  std::span<const RowLocation> stored_;
  std::span<const std::shared_ptr<const RowFile>> files_;
  const RecordUnpacker* unpacker_ = nullptr;
  std::vector<const std::byte*> records_;  // by row, after fetch()
  std::vector<Buffer> reads_;
  std::vector<std::byte*> to_;
  std::vector<RowShape> shapes_;
  std::vector<std::vector<std::byte>> staged_;  // by task, with a choice of columns
  std::vector<size_t> staged_at_;               // by row: offset in its task's buffer
  uint64_t bytes_read_ = 0;
  uint64_t read_count_ = 0;
};

/// "row 7 at offset 120 of file …", for error messages.
std::string record_place(int64_t row, const RowLocation& stored, const RowFile& file);

}  // namespace penstock::format::pack
