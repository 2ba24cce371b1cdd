#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/lazy.h"
#include "format/matrix_source.h"
#include "format/row_file/row_file.h"

// A matrix in row files: what its source and all of its readers share.

namespace penstock::format::pack {

/// A record, and which file it is in.
struct RowLocation {
  uint32_t file = 0;
  RecordPlace place;
};

/// Some rows spread over a layer, to tell how large rows are under a choice of columns. Read once:
/// of a remote pack that is a round trip, which later plans must not need.
struct SampledRows {
  std::vector<int64_t> ids;
  std::vector<RowLocation> stored;
  std::vector<std::span<const std::byte>> records;  ///< kRecordSlack bytes behind each are there
  Buffer bytes;
};

struct PackedLayer {
  /// Ascending, no row in two of them.
  std::vector<std::shared_ptr<const RowFile>> files;
  MatrixInfo info;
  uint64_t stored_columns = 0;
  std::vector<plan::FetchUnit> units;

  /// Where the row is; one that is in no file is empty.
  RowLocation find(int64_t row) const;

  /// Any thread.
  const SampledRows& sampled_rows() const;

 private:
  SampledRows sample_rows() const;
  Lazy<SampledRows> sampled_rows_;
};

/// Stretches of rows: few enough for many of them to be mixed at a time, enough for a read to be
/// long. They cover the whole domain.
inline constexpr uint64_t kUnitRows = 512;
inline constexpr uint64_t kUnitBytes = uint64_t{4} << 20;

/// `info`: shape and value type. Throws CorruptData where the files contradict one another or it.
std::shared_ptr<const PackedLayer> make_layer(std::vector<std::shared_ptr<const RowFile>> files,
                                              MatrixInfo info);

/// A source over row files.
MatrixSourcePtr open_layer(std::shared_ptr<const PackedLayer> layer);

}  // namespace penstock::format::pack
