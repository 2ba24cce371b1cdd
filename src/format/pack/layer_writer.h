#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/matrix_source.h"
#include "format/pack/pack_contents.h"
#include "format/pack/row_feed.h"
#include "format/pack/row_file_plan.h"
#include "format/row_file/row_file.h"

// Writes row files of one layer, some rows at a time (row_feed.h).
//
//   LayerWriter writer(source, rows, facts, plan_row_files(…), folder, …);
//   while (writer.step()) …
//   writer.contents(name)                       if it had all files of the layer
//
// Complete row files of the same key that exist already are kept. For one thread.

namespace penstock::format::pack {

class LayerWriter {
 public:
  /// `rows`: all that are packed; `facts`: of the layer; `files`: those to write, side by side.
  /// `options`: threads, and the memory for decoded chunks.
  LayerWriter(MatrixSourcePtr source, const RowSelection& rows, const RowFileFacts& facts,
              std::vector<RowFilePlan> files, std::string folder, const RowBandOptions& options);

  /// Returns false when everything is written. Throws ResourceExhausted if the memory is too
  /// little.
  bool step();

  uint64_t rows_done() const noexcept { return rows_done_; }
  uint64_t rows_kept() const noexcept { return rows_kept_; }
  uint64_t bytes_written() const noexcept { return bytes_written_; }
  /// Of a matrix that is stored by columns.
  PassProgress passes() const { return feed_ ? feed_->passes() : PassProgress{}; }
  PackedLayerContents contents(const std::string& name) const;

 private:
  bool kept(const RowFilePlan& plan);

  MatrixSourcePtr source_;
  RowFileFacts facts_;
  RowSelection rows_;               ///< of the files
  std::vector<RowFilePlan> files_;  ///< positions are those in rows_
  std::string folder_;
  RowBandOptions options_;
  std::unique_ptr<RowFeed> feed_;  ///< null until rows are needed

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
