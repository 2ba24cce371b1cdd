#include "format/soma/x_row_merge.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "format/soma/x_row_copy.h"
#include "kernel/pack_row.h"

namespace penstock::format::soma {
namespace {

struct Cell {
  uint32_t column = 0;
  uint32_t fragment = 0;
  uint64_t timestamp = 0;
  uint32_t position = 0;  ///< in the row's runs: the order of last resort, and where its value is
  bool deleted = false;

  friend bool operator<(const Cell& a, const Cell& b) noexcept {
    return std::tie(a.column, a.timestamp, a.fragment, a.position) <
           std::tie(b.column, b.timestamp, b.fragment, b.position);
  }
};

uint32_t index_at(const XTileStage& stage, uint8_t index_bytes, uint32_t cell) noexcept {
  return index_bytes == 2 ? stage.indices.as<uint16_t>()[cell] : stage.indices.as<uint32_t>()[cell];
}

class RowMerge {
 public:
  RowMerge(const XDecodeContext& context, std::span<const XTileStage> stages, XTileStage& merged)
      : context_(context),
        stages_(stages),
        merged_(merged),
        value_bytes_(context.layout.value_bytes) {}

  /// The merged row, as a run of `merged`.
  XRowRun merge(std::span<const XRowRun> runs) {
    gather(runs);
    std::sort(cells_.begin(), cells_.end());
    if (!context_.array.allows_duplicates()) drop_hidden();
    return append();
  }

 private:
  void gather(std::span<const XRowRun> runs) {
    cells_.clear();
    values_.clear();
    const auto& fragments = context_.array.fragments();
    for (const XRowRun& run : runs) {
      const XTileStage& stage = stages_[run.stage];
      const uint64_t fragment_time = fragments[stage.fragment].first_timestamp;
      for (uint32_t i = run.begin; i < run.begin + run.count; ++i) {
        cells_.push_back({
            .column = index_at(stage, context_.layout.index_bytes, i),
            .fragment = stage.fragment,
            // Duplicates that are all kept need no order but a stable one.
            .timestamp = stage.timestamps.empty() ? fragment_time : stage.timestamps[i],
            .position = static_cast<uint32_t>(cells_.size()),
            .deleted = !stage.deleted.empty() && stage.deleted[i] != 0,
        });
      }
      const size_t at = values_.size();
      values_.resize(at + size_t{run.count} * value_bytes_);
      copy_run_values(stage, run, context_.layout, values_.data() + at);
    }
  }

  // The last of a place is the newest.
  void drop_hidden() {
    size_t kept = 0;
    for (size_t i = 0; i < cells_.size(); ++i) {
      const bool newest = i + 1 == cells_.size() || cells_[i + 1].column != cells_[i].column;
      if (newest && !cells_[i].deleted) cells_[kept++] = cells_[i];
    }
    cells_.resize(kept);
  }

  XRowRun append() {
    const auto count = static_cast<uint32_t>(cells_.size());
    ordered_.resize(size_t{count} * value_bytes_);
    const uint32_t begin = merged_.cells;
    for (uint32_t i = 0; i < count; ++i) {
      if (context_.layout.index_bytes == 2) {
        merged_.indices.as<uint16_t>()[begin + i] = static_cast<uint16_t>(cells_[i].column);
      } else {
        merged_.indices.as<uint32_t>()[begin + i] = cells_[i].column;
      }
      std::memcpy(ordered_.data() + size_t{i} * value_bytes_,
                  values_.data() + size_t{cells_[i].position} * value_bytes_, value_bytes_);
    }
    auto* const codes = reinterpret_cast<uint8_t*>(merged_.codes.data()) + begin;
    const uint32_t escapes = kernel::encode_values(context_.layout.value_type, ordered_.data(),
                                                   count, codes, context_.path);
    const uint32_t wide_begin = merged_.wide_count;
    for (uint32_t i = 0; i < count; ++i) {
      if (codes[i] != kernel::kEscapeCode) continue;
      std::memcpy(merged_.wide.data() + size_t{merged_.wide_count++} * value_bytes_,
                  ordered_.data() + size_t{i} * value_bytes_, value_bytes_);
    }
    merged_.cells += count;
    return {0, begin, count, wide_begin, escapes};
  }

  const XDecodeContext& context_;
  std::span<const XTileStage> stages_;
  XTileStage& merged_;
  const size_t value_bytes_;
  std::vector<Cell> cells_;
  std::vector<std::byte> values_;   // of the row's runs, in their order
  std::vector<std::byte> ordered_;  // of the merged row
};

}  // namespace

void merge_rows(const XDecodeContext& context, std::span<const XTileStage> stages,
                std::span<const uint32_t> rows, uint32_t merged_stage, XTileStage& merged,
                XRowIndex& index) {
  merged.clear();
  uint64_t room = kStageSlack;
  for (const uint32_t row : rows) room += index.row(row).nnz;
  if (room > 0xFFFFFFFFU) {
    throw ResourceExhausted("rows of " + std::to_string(room) + " cells to merge at once");
  }
  merged.indices.resize_discard(room * context.layout.index_bytes);
  merged.codes.resize_discard(room);
  merged.wide.resize_discard(room * context.layout.value_bytes);
  RowMerge merge(context, stages, merged);
  for (const uint32_t row : rows) {
    XRowRun run = merge.merge(index.runs(row));
    run.stage = merged_stage;
    index.set_merged(row, run);
  }
}

}  // namespace penstock::format::soma
