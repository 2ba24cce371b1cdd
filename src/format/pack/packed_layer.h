#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/matrix_source.h"
#include "format/pack/row_file.h"

// A matrix in row files: what its source and all of its readers share.

namespace penstock::format::pack {

/// A record, and which file it is in.
struct StoredRow {
  uint32_t file = 0;
  RecordPlace place;
};

struct PackedLayer {
  /// Ascending, no row in two of them.
  std::vector<std::shared_ptr<const RowFile>> files;
  MatrixInfo info;
  uint64_t stored_columns = 0;
  std::vector<plan::FetchUnit> units;

  /// Where the row is; one that is in no file is empty.
  StoredRow find(int64_t row) const;
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
