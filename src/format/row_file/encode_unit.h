#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/threads/mutex.h"
#include "format/matrix_source.h"
#include "format/row_file/row_file.h"
#include "format/row_file/row_record.h"

// Encodes a unit of any matrix as row records for a pack or a cache.

namespace penstock::format::pack {

struct EncodedRows {
  std::vector<int64_t> rows;
  std::vector<size_t> lengths;  ///< of the record of each row
  std::vector<uint32_t> nnz;
  std::vector<std::byte> bytes;

  void append_to(RowFileWriter& writer) const;
};

/// Finished decodes of a reader, whose buffers are reused by later units. Any thread.
class DecodePool {
 public:
  std::unique_ptr<UnitDecode> take();
  void give(std::unique_ptr<UnitDecode> decode);

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<UnitDecode>> free_ PENSTOCK_GUARDED_BY(mutex_);
};

/// Reads and decodes these rows of a unit on the calling thread. `reader` must have all
/// `column_count` columns.
EncodedRows encode_unit(const MatrixReader& reader, uint64_t column_count, uint32_t unit,
                        std::vector<int64_t> rows, DecodePool& pool);

}  // namespace penstock::format::pack
