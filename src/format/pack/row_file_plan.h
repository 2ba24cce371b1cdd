#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/matrix_source.h"
#include "format/row_file/row_file.h"

// Which row files a layer of a pack has: a function of what is packed alone, so that every process
// that packs the same plans the same files.

namespace penstock::format::pack {

struct RowFilePlan {
  std::string name;
  RowFileFacts facts;
  uint64_t first = 0, end = 0;  ///< positions of its rows among those that are packed
};

/// Cuts the rows into files of `rows_per_file` rows or some more: units are not cut. `facts` are
/// those of the layer, and each file has them with its own range of rows.
std::vector<RowFilePlan> plan_row_files(const MatrixSource& source, const RowSelection& rows,
                                        const RowFileFacts& facts, uint64_t rows_per_file);

}  // namespace penstock::format::pack
