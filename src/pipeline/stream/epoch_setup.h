#pragma once

#include <penstock/loader.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/keep/keep_reader.h"
#include "format/matrix_source.h"
#include "pipeline/budget.h"
#include "plan/epoch_plan.h"
#include "plan/order/row_sampler.h"

namespace penstock::pipeline {

/// Inputs of every epoch: checked options, chosen columns and rows.
struct StreamSetup {
  std::shared_ptr<const format::MatrixReader> reader;
  std::shared_ptr<const std::vector<int64_t>> column_ids;  ///< null: every column
  uint32_t columns = 0;
  RowSelection rows;
  plan::EpochOptions epoch;
  uint64_t first_batch = 0;
  BudgetRequest request;
  std::shared_ptr<format::KeepReader> keep;  ///< `reader`, if rows may be kept; else null
  bool all_kept = false;                     ///< every row is in memory
};

/// Inputs of the plan of an epoch that is read by units: selected units and the split of memory.
struct EpochSetup : StreamSetup {
  std::vector<plan::UnitRows> units;  ///< of the plan; the sampler's if there is one
  std::shared_ptr<const plan::RowSampler> sampler;
  BudgetSplit budget;
};

/// joinids of the options, or all of the matrix.
RowSelection selected_rows(const format::MatrixSource& source, const LoaderOptions& options);
std::vector<int64_t> column_ids(const format::MatrixSource& source, const LoaderOptions& options);
/// Whether this loader keeps rows: it is asked to, has all rows of the selection, and reads them.
bool may_keep(const format::MatrixSource& source, const LoaderOptions& options) noexcept;

/// The largest memory_budget, up to that of the options, with which all rows stay; 0 if there is
/// none. With more memory, more units and batches are ahead, which can leave less for rows.
uint64_t budget_that_keeps_all(const format::MatrixSourcePtr& source, const LoaderOptions& options);

/// Part of the memory_budget that keeps rows if not all fit in it; 0 if it is not worth it.
uint64_t memory_for_part_of_rows(const format::MatrixSourcePtr& source,
                                 const LoaderOptions& options);

/// Throws InvalidArgument for options that are invalid.
StreamSetup make_stream_setup(const format::MatrixSourcePtr& source, const LoaderOptions& options);

/// Throws as split_budget does.
EpochSetup make_epoch_setup(const format::MatrixSource& source, StreamSetup setup,
                            const LoaderOptions& options);
inline EpochSetup make_epoch_setup(const format::MatrixSourcePtr& source,
                                   const LoaderOptions& options) {
  return make_epoch_setup(*source, make_stream_setup(source, options), options);
}

/// Stored bytes of the distinct tiles that the plan's rows touch from first_batch on.
uint64_t bytes_needed(const EpochSetup& setup, const plan::EpochPlan& plan);

/// Stored bytes that the plan's visits read from first_batch on: tiles with chosen columns and
/// selected rows, counted once for each visit that reads them. Slow for many visits.
uint64_t bytes_planned(const EpochSetup& setup, const plan::EpochPlan& plan);

/// joinids in the batches before first_batch, without the row that kPad repeats: it is counted at
/// its own slot.
RowSelection rows_before(const EpochSetup& setup, const plan::EpochPlan& plan);

}  // namespace penstock::pipeline
