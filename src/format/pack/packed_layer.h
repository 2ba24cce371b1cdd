#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory/buffer.h"
#include "base/threads/lazy.h"
#include "format/matrix_source.h"
#include "format/row_file/row_file.h"

// A matrix in row files: the part that its source and all of its readers share.

namespace penstock::format::pack {

/// A record and the file it is in.
struct RowLocation {
  uint32_t file = 0;
  RecordPlace place;
};

/// Some rows spread over a layer, used to estimate the size of rows under a choice of columns. Read
/// once, because a remote pack takes a round trip that later plans must not repeat.
struct SampledRows {
  std::vector<int64_t> ids;
  std::vector<RowLocation> stored;
  std::vector<std::span<const std::byte>> records;  ///< followed by kRecordSlack readable bytes
  Buffer bytes;
};

struct PackedLayer {
  /// In ascending order of rows; no row is in two files.
  std::vector<std::shared_ptr<const RowFile>> files;
  MatrixInfo info;
  uint64_t stored_columns = 0;
  std::vector<plan::FetchUnit> units;

  /// Returns the place of the row; empty for a row that is in no file.
  RowLocation find(int64_t row) const;

  /// Any thread.
  const SampledRows& sampled_rows() const;

 private:
  SampledRows sample_rows() const;
  Lazy<SampledRows> sampled_rows_;
};

/// Size of a fetch unit, a stretch of rows: small enough to mix many at a time, large enough for
/// long reads. Units cover the whole domain.
inline constexpr uint64_t kUnitRows = 512;
inline constexpr uint64_t kUnitBytes = uint64_t{4} << 20;

/// `info`: shape and value type. Throws CorruptData if the files contradict one another or `info`.
std::shared_ptr<const PackedLayer> make_layer(std::vector<std::shared_ptr<const RowFile>> files,
                                              MatrixInfo info);

/// Returns a source over row files.
MatrixSourcePtr open_layer(std::shared_ptr<const PackedLayer> layer);

}  // namespace penstock::format::pack
