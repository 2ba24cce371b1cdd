#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/matrix_source.h"
#include "format/pack/pack_contents.h"
#include "format/row_file/encode_unit.h"
#include "format/row_file/row_file.h"

// Writes the row files of one layer, a few units at a time, with threads that decode and encode.
//
//   LayerWriter writer(source, rows, stored_columns, key, folder, …);
//   while (writer.step()) …
//   writer.contents(name)
//
// Complete row files of the same key that exist already are kept. For one thread.

namespace penstock::format::pack {

class LayerWriter {
 public:
  LayerWriter(MatrixSourcePtr source, RowSelection rows, uint64_t stored_columns,
              const ContentKey& key, std::string folder, uint64_t rows_per_file, unsigned threads);

  /// Returns false when everything is written.
  bool step();

  uint64_t rows_done() const noexcept { return rows_done_; }
  uint64_t rows_kept() const noexcept { return rows_kept_; }
  uint64_t bytes_written() const noexcept { return bytes_written_; }
  PackedLayerContents contents(const std::string& name) const;

 private:
  struct UnitPlan {
    uint32_t unit = 0;
    uint64_t first = 0;  ///< position of the first of its rows
    uint64_t count = 0;
  };
  struct FilePlan {
    std::string name;
    RowFileFacts facts;
    uint64_t first = 0, count = 0;
    std::vector<UnitPlan> units;
  };
  void plan_files(uint64_t rows_per_file);
  bool kept(const FilePlan& plan);
  std::vector<int64_t> rows_at(uint64_t first, uint64_t count) const;

  MatrixSourcePtr source_;
  std::shared_ptr<const MatrixReader> reader_;
  RowSelection rows_;
  RowFileFacts facts_;
  std::string folder_;
  unsigned threads_;
  std::vector<FilePlan> files_;
  DecodePool pool_;

  size_t file_ = 0;  ///< index into files_ of the file being written
  size_t next_ = 0;  ///< index of its next unit
  std::unique_ptr<RowFileWriter> writer_;
  uint64_t rows_done_ = 0;
  uint64_t rows_kept_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t nonzeros_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace penstock::format::pack
