#include "format/soma/x/decode/row_merge.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "base/concat.h"
#include "format/soma/x/decode/row_copy.h"
#include "kernel/pack_row.h"

namespace penstock::format::soma {
namespace {

// A cell of the row being merged. Runs are in the fragments' order, oldest first, so `position`
// alone orders duplicates unless cells have their own timestamps. Among cells of one fragment and
// one time the first wins, as in format/tiledb/reader/array_reader_overlap.h.
struct Cell {
  uint64_t place = 0;  ///< column << 32 | position in the row's runs
  uint64_t timestamp = 0;
  uint32_t fragment = 0;

  uint32_t column() const noexcept { return static_cast<uint32_t>(place >> 32); }
  uint32_t position() const noexcept { return static_cast<uint32_t>(place); }
};

bool by_age(const Cell& a, const Cell& b) noexcept {
  return std::tuple(a.column(), a.timestamp, a.fragment, b.position()) <
         std::tuple(b.column(), b.timestamp, b.fragment, a.position());
}

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
    const bool timed = std::any_of(runs.begin(), runs.end(), [&](const XRowRun& run) {
      return !stages_[run.stage].timestamps.empty();
    });
    gather(runs);
    if (timed) {
      sort_by_age(runs);
    } else {
      std::sort(places_.begin(), places_.end());
    }
    if (!context_.array.allows_duplicates()) drop_hidden();
    return append();
  }

 private:
  void gather(std::span<const XRowRun> runs) {
    places_.clear();
    values_.clear();
    deleted_.clear();
    for (const XRowRun& run : runs) {
      const XTileStage& stage = stages_[run.stage];
      for (uint32_t i = run.begin; i < run.begin + run.count; ++i) {
        const uint64_t column = index_at(stage, context_.layout.index_bytes, i);
        places_.push_back(column << 32 | places_.size());
        deleted_.push_back(stage.deleted.empty() ? 0 : stage.deleted[i]);
      }
      const size_t at = values_.size();
      values_.resize(at + size_t{run.count} * value_bytes_);
      copy_run_values(stage, run, context_.layout, values_.data() + at);
    }
  }

  void sort_by_age(std::span<const XRowRun> runs) {
    cells_.clear();
    for (const XRowRun& run : runs) {
      const XTileStage& stage = stages_[run.stage];
      const uint64_t time = context_.array.fragments()[stage.fragment].first_timestamp;
      for (uint32_t i = run.begin; i < run.begin + run.count; ++i) {
        cells_.push_back({places_[cells_.size()],
                          stage.timestamps.empty() ? time : stage.timestamps[i], stage.fragment});
      }
    }
    std::sort(cells_.begin(), cells_.end(), by_age);
    for (size_t i = 0; i < cells_.size(); ++i) places_[i] = cells_[i].place;
  }

  // The last of a column is the newest.
  void drop_hidden() {
    size_t kept = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      const bool newest = i + 1 == places_.size() || places_[i + 1] >> 32 != places_[i] >> 32;
      if (newest && deleted_[static_cast<uint32_t>(places_[i])] == 0) places_[kept++] = places_[i];
    }
    places_.resize(kept);
  }

  XRowRun append() {
    const auto count = static_cast<uint32_t>(places_.size());
    ordered_.resize(size_t{count} * value_bytes_);
    const uint32_t begin = merged_.cells;
    for (uint32_t i = 0; i < count; ++i) {
      if (context_.layout.index_bytes == 2) {
        merged_.indices.as<uint16_t>()[begin + i] = static_cast<uint16_t>(places_[i] >> 32);
      } else {
        merged_.indices.as<uint32_t>()[begin + i] = static_cast<uint32_t>(places_[i] >> 32);
      }
      std::memcpy(ordered_.data() + size_t{i} * value_bytes_,
                  values_.data() + size_t{static_cast<uint32_t>(places_[i])} * value_bytes_,
                  value_bytes_);
    }
    auto* const codes = reinterpret_cast<uint8_t*>(merged_.codes.data()) + begin;
    const uint32_t escapes = kernel::encode_values(context_.layout.value_type, ordered_.data(),
                                                   count, codes, context_.path);
    const uint32_t wide_begin = merged_.wide_count;
    for (uint32_t i = 0; i < count; ++i) {
      if (codes[i] != kEscapeCode) continue;
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
  std::vector<uint64_t> places_;    // as Cell::place
  std::vector<uint8_t> deleted_;    // by position
  std::vector<Cell> cells_;         // only where timestamps decide
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
    throw ResourceExhausted(concat("rows of ", room, " cells to merge at once"));
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
