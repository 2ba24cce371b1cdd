#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/soma/x/decode/tile_stage.h"

// Index of the runs of a unit's stages by row: the runs of each row, and the rows that need more
// than a copy.
//
// `build` is one pass over the runs (one thread). A row whose runs ascend without overlap is done;
// the others are listed in `merges`. merge_row (row_merge.h) makes one run of each, and set_merged
// puts the run in place; different rows may be merged at the same time.

namespace penstock::format::soma {

/// A run and the stage that holds it.
struct XRowRun {
  uint32_t stage = 0;
  uint32_t begin = 0;
  uint32_t count = 0;
  uint32_t wide_begin = 0;
  uint32_t wide_count = 0;
};

struct XRowSummary {
  uint32_t first_run = 0;
  uint32_t run_count = 0;
  uint32_t nnz = 0;
  uint32_t wide_count = 0;
  // While the index is built:
  uint32_t last_index = 0;  ///< last column of the row so far
  uint32_t last_stage = 0;
  bool merge = false;
};

class XRowIndex {
 public:
  /// `has_timestamps`, by fragment: whether t.tdb orders its duplicates. Stages that must be
  /// decoded again for their timestamps are listed in again().
  void build(uint32_t row_count, std::span<const XTileStage> stages, bool allows_duplicates,
             const std::vector<bool>& has_timestamps);

  const XRowSummary& row(uint32_t row) const noexcept { return rows_[row]; }
  std::span<const XRowRun> runs(uint32_t row) const noexcept {
    return {runs_.data() + rows_[row].first_run, rows_[row].run_count};
  }
  const std::vector<uint32_t>& again() const noexcept { return again_; }
  const std::vector<uint32_t>& merges() const noexcept { return merges_; }

  uint64_t memory_bytes() const noexcept {
    return rows_.size() * sizeof(XRowSummary) + runs_.size() * sizeof(XRowRun);
  }

  /// Replaces a row's runs by one run, or by none if the row has no cells.
  void set_merged(uint32_t row, const XRowRun& run) noexcept;

 private:
  std::vector<XRowSummary> rows_;
  std::vector<XRowRun> runs_;
  std::vector<uint32_t> again_;
  std::vector<uint32_t> merges_;
};

}  // namespace penstock::format::soma
