#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/matrix_source.h"
#include "format/pack/pack_contents.h"
#include "format/pack/row_feed.h"
#include "format/row_file/row_file.h"

// Writes the row files of one layer, some rows at a time (row_feed.h).
//
//   LayerWriter writer(source, rows, stored_columns, key, folder, …);
//   while (writer.step()) …
//   writer.contents(name)
//
// Complete row files of the same key that exist already are kept. For one thread.

namespace penstock::format::pack {

class LayerWriter {
 public:
  /// `options`: threads, and the memory for a matrix that is stored by columns. Throws
  /// ResourceExhausted if that is too little.
  LayerWriter(MatrixSourcePtr source, RowSelection rows, uint64_t stored_columns,
              const ContentKey& key, std::string folder, uint64_t rows_per_file,
              const RowBandOptions& options);

  /// Returns false when everything is written.
  bool step();

  uint64_t rows_done() const noexcept { return rows_done_; }
  uint64_t rows_kept() const noexcept { return rows_kept_; }
  uint64_t bytes_written() const noexcept { return bytes_written_; }
  /// Of a matrix that is stored by columns.
  PassProgress passes() const { return feed_->passes(); }
  PackedLayerContents contents(const std::string& name) const;

 private:
  struct FilePlan {
    std::string name;
    RowFileFacts facts;
    uint64_t first = 0, end = 0;  ///< positions of its rows
  };
  bool kept(const FilePlan& plan);

  MatrixSourcePtr source_;
  RowSelection rows_;
  RowFileFacts facts_;
  std::string folder_;
  std::unique_ptr<RowFeed> feed_;
  std::vector<FilePlan> files_;

  size_t file_ = 0;    ///< index into files_ of the file being written
  uint64_t next_ = 0;  ///< position of its next row
  std::unique_ptr<RowFileWriter> writer_;
  uint64_t rows_done_ = 0;
  uint64_t rows_kept_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t nonzeros_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace penstock::format::pack
