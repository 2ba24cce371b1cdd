#include "format/soma/x/decode/row_index.h"

#include <algorithm>

namespace penstock::format::soma {

void XRowIndex::build(uint32_t row_count, std::span<const XTileStage> stages,
                      bool allows_duplicates, const std::vector<bool>& has_timestamps) {
  again_.clear();
  merges_.clear();
  rows_.assign(row_count, XRowSummary{});
  size_t run_count = 0;
  for (const XTileStage& stage : stages) {
    run_count += stage.runs.size();
    for (const XRun& run : stage.runs) ++rows_[run.row].run_count;
  }
  uint32_t next = 0;
  for (XRowSummary& row : rows_) {
    row.first_run = next;
    next += row.run_count;
    row.run_count = 0;
  }
  if (runs_.size() < run_count) runs_.resize(run_count);

  std::vector<bool> again(stages.size(), false);
  for (uint32_t s = 0; s < stages.size(); ++s) {
    const XTileStage& stage = stages[s];
    if (stage.wants_timestamps) again[s] = true;
    const bool marked = !stage.timestamps.empty() || !stage.deleted.empty();
    for (const XRun& run : stage.runs) {
      XRowSummary& row = rows_[run.row];
      if (row.run_count != 0 && run.first_index <= row.last_index) {
        const bool same_place = run.first_index == row.last_index;
        if (!same_place || !allows_duplicates) row.merge = true;
        const XTileStage& before = stages[row.last_stage];
        if (same_place && !allows_duplicates && before.fragment == stage.fragment &&
            has_timestamps[stage.fragment] &&
            (stage.timestamps.empty() || before.timestamps.empty())) {
          again[s] = again[row.last_stage] = true;
        }
      }
      row.merge |= marked;
      row.last_index = run.last_index;
      row.last_stage = s;
      runs_[row.first_run + row.run_count++] = {s, run.begin, run.count, run.wide_begin,
                                                run.wide_count};
      row.nnz += run.count;
      row.wide_count += run.wide_count;
    }
  }
  for (uint32_t s = 0; s < stages.size(); ++s) {
    if (again[s]) again_.push_back(s);
  }
  for (uint32_t r = 0; r < row_count; ++r) {
    if (rows_[r].merge) merges_.push_back(r);
  }
}

void XRowIndex::set_merged(uint32_t row, const XRowRun& run) noexcept {
  XRowSummary& summary = rows_[row];
  summary.run_count = run.count == 0 ? 0 : 1;
  summary.nnz = run.count;
  summary.wide_count = run.wide_count;
  runs_[summary.first_run] = run;
}

}  // namespace penstock::format::soma
