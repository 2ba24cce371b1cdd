#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/threads/lazy.h"
#include "format/cells/column_map.h"
#include "format/matrix_source.h"
#include "format/soma/x/array.h"
#include "format/soma/x/unit_decode.h"

// An X array under a choice of columns (format/matrix_source.h, MatrixReader).

namespace penstock::format::soma {

class XReader final : public MatrixReader, public std::enable_shared_from_this<XReader> {
 public:
  XReader(std::shared_ptr<const XArray> array, std::span<const int64_t> columns);

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> recycled) const override;
  uint64_t in_flight_bytes(uint32_t unit) const override;
  uint64_t fetched_bytes(uint32_t unit) const override;
  bool remote() const override;
  double packed_bytes_per_cell() const override;
  uint64_t bytes_needed(const RowSelection& rows) const override;
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override;

  std::span<const int64_t> columns() const noexcept { return columns_.ids(); }

 private:
  /// Averages over a few tiles spread over the array, per stored cell.
  struct Sample {
    double packed_bytes = 0;
    double staged_bytes = 0;
    double kept_cells = 0;
    bool repeating = false;  ///< a tile holds a place twice
  };
  const Sample& sample() const;
  Sample take_sample() const;
  void will_read(std::span<const XTileId> tiles) const;
  bool has_chosen_columns(XTileId id) const;
  uint64_t unit_bytes(uint32_t unit) const;
  XTileBytes read_tile(XTileId id, std::vector<Buffer>& buffers) const;

  std::shared_ptr<const XArray> array_;
  ColumnMap columns_;
  kernel::PackedRowLayout layout_;
  XDecodeContext context_;
  mutable XScratchPool scratch_pool_;
  Lazy<Sample> sample_;
  mutable std::vector<std::atomic<uint64_t>> unit_bytes_;  ///< by unit, 0 until first asked for
};

}  // namespace penstock::format::soma
