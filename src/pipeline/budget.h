#pragma once

#include <penstock/loader.h>

#include <cstdint>
#include <span>

#include "format/matrix_source.h"
#include "format/row_reader.h"
#include "plan/epoch_plan.h"

// How a loader's memory is split. Everything that the pipeline holds has a share:
//
//   units in flight   stored bytes, decode buffers, staged rows of `units_in_flight` units
//   batches           the finished ones, those being made, and those in the consumer's hands
//   rows              the rest: pages of packed rows and their tables, which sets the spread K
//
// A remote store has fewer units being decoded and more that hold stored bytes alone, in the memory
// of those; the rows' share, and with it K, is what it is for a file.
//
// A function of data, options and budget alone, never of threads: K decides the order of rows, and
// the order must not depend on the machine. Small budgets get fewer units in flight and batches
// ahead before they are refused.

namespace penstock::pipeline {

struct BudgetSplit {
  uint64_t row_bytes = 0;    ///< capacity of the page pool, tables of rows included
  uint64_t batch_bytes = 0;  ///< all batches together
  uint32_t page_bytes = 0;
  uint32_t units_in_flight = 1;  ///< what the plan of memory counts with
  uint32_t units_decoding = 1;   ///< at once; as many as in flight but for a remote store
  uint32_t units_ahead = 0;      ///< more that only wait for the network, in the others' memory
  uint32_t batches_ahead = 1;    ///< finished or being made
  uint32_t spread = 1;           ///< K
  uint64_t block_rows = 0;       ///< of a global order: rows whose units are read together
};

struct BudgetRequest {
  uint64_t memory_budget = 0;
  uint32_t sharers = 1;  ///< workers that share it in equal parts
  BatchLayout layout = BatchLayout::kCsr;
  size_t value_bytes = 4;  ///< of the batches' dtype
  uint32_t columns = 0;
  size_t packed_entry_bytes = 3;  ///< packed bytes of a non-zero: index and code
};

/// One sharer's. Throws ResourceExhausted with the least budget that works. That is the same for
/// every seed, epoch, rank and worker: an epoch that began is not followed by one that is refused.
BudgetSplit split_budget(const BudgetRequest& request, const format::MatrixReader& reader,
                         std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch);

/// The same where rows are read one by one, each thread a batch at a time. How it is split does not
/// change the order.
struct RowBudgetSplit {
  uint64_t batch_bytes = 0;    ///< all batches together
  uint64_t reader_bytes = 0;   ///< expected, of one thread's rows
  uint32_t batches_ahead = 1;  ///< finished or being made
  uint32_t readers = 1;        ///< threads that read
};

/// Throws ResourceExhausted with the least budget that works: one reader, a batch and one in the
/// consumer's hands.
RowBudgetSplit split_row_budget(const BudgetRequest& request, const format::RowReader& reader,
                                uint64_t rows, const plan::EpochOptions& epoch, unsigned threads);

}  // namespace penstock::pipeline
