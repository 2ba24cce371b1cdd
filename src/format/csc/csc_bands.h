#pragma once

#include <penstock/row_selection.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "format/csc/csc_array.h"
#include "format/csc/forward_window.h"
#include "format/csc/row_band.h"
#include "format/row_bands.h"

// The rows of a CSC matrix, in bands. Memory, of which the bands get what the others leave:
//
//   4 bytes a row of the matrix     numbers of non-zeros, from the first pass
//   windows                         decoded chunks of indices and data, while a pass is read
//   encoded rows                    of the user, while no pass is read, so in place of the windows
//   a band                          12 bytes a row; 4 to 12 bytes a non-zero

namespace penstock::format {

/// How a budget is divided.
struct MemoryShares {
  uint64_t window_cells = 0;  ///< elements of a window, before it is rounded to whole chunks
  uint64_t window_bytes = 0;  ///< of the windows of both arrays, and what decoding them takes
  uint64_t band_bytes = 0;
};

class CscBands final : public RowBands {
 public:
  /// Half of it is for the bands.
  static uint64_t least_budget(const CscArray& array);

  /// Throws ResourceExhausted if the budget is less.
  CscBands(std::shared_ptr<const CscArray> array, const RowSelection& rows,
           const RowBandOptions& options);

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  bool collect(int64_t row) override;
  int64_t end() const override { return static_cast<int64_t>(band_.end()); }
  uint32_t nnz(int64_t row) const override { return band_.nnz(static_cast<uint64_t>(row)); }
  void pack(int64_t row, std::vector<uint64_t>& record) const override {
    band_.pack(static_cast<uint64_t>(row), record);
  }
  uint64_t nonzeros_at_once() const override;
  PassProgress progress() const override;

 private:
  void begin_pass();
  void end_pass();
  void read_ids();
  void count_window();
  void drop_other_rows();
  void begin_band(uint64_t row);
  void collect_window();
  uint64_t band_end(uint64_t row) const;
  uint32_t bands_from(uint64_t row) const;
  /// Calls body(first, last) for parts of [begin, end), on all threads.
  template <typename Body>
  void for_parts(uint64_t begin, uint64_t end, Body&& body) const;
  [[noreturn]] void changed() const;

  const std::shared_ptr<const CscArray> array_;
  const RowSelection rows_;
  const kernel::PackedRowLayout layout_;
  const unsigned threads_;
  const MemoryShares shares_;
  ForwardWindow indices_, data_;
  Buffer ids_;  ///< row ids of the window of indices, as uint32
  std::vector<uint32_t> counts_;
  uint64_t next_ = 0;  ///< element that the pass reads next
  uint32_t pass_ = 0, passes_ = 0;
  bool counted_ = false;
  bool reading_ = false;  ///< a pass is begun and not complete
  RowBand band_;
};

}  // namespace penstock::format
