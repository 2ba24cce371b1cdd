#pragma once

#include <penstock/loader.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "format/keep/keep_store.h"
#include "format/matrix_source.h"
#include "format/row_reader.h"
#include "plan/epoch_plan.h"

// How a loader's memory is split. Everything that the pipeline holds has a share:
//
//   units in flight   stored bytes, decode buffers, staged rows of `units_in_flight` units
//   batches           finished batches, those being made, and those that the consumer holds
//   rows              the rest: pages of packed rows and their tables, which sets the spread K
//
// With a remote store, fewer units are decoded at a time. Their memory is used for more units that
// hold stored bytes alone. The share of the rows, and so K, is the same as for a file.
//
// The split depends on data, options and budget alone, never on threads: K decides the order of
// rows, and the order must not depend on the machine. A small budget first gets fewer units in
// flight and fewer batches ahead; only a smaller one is refused.

namespace penstock::pipeline {

struct BudgetSplit {
  uint64_t row_bytes = 0;    ///< capacity of the page pool, tables of rows included
  uint64_t batch_bytes = 0;  ///< all batches together
  uint32_t page_bytes = 0;
  uint32_t units_in_flight = 1;    ///< number that the plan of memory assumes
  uint32_t units_decoding = 1;     ///< at a time; units_in_flight unless the store is remote
  uint32_t units_ahead = 0;        ///< more units that wait for the network, in the others' memory
  uint32_t batches_ahead = 1;      ///< finished or being made
  uint32_t spread = 1;             ///< K
  uint64_t block_rows = 0;         ///< of a global order: rows whose units are read together
  uint64_t lower_budget = 0;       ///< the most memory with which fewer units and batches are ahead
  uint64_t keep_room = 0;          ///< of row_bytes, for rows that stay after the epoch
  uint64_t keep_beside = 0;        ///< beside the budget, for such rows; one of both is 0
  uint64_t keep_bytes = 0;         ///< expected, of the selection
  uint64_t keep_packed_bytes = 0;  ///< expected, of the selection if it is bit-packed
  uint64_t unpacked_bytes = 0;  ///< of keep_room, if rows that are kept wide are bit-packed instead
  /// Only units below this number are kept, and these whole. If some rows of every unit were kept,
  /// every unit would be read again for its other rows. Kept beside the budget, they take nothing
  /// of it but tables, so more units are mixed.
  uint32_t keep_unit_end = std::numeric_limits<uint32_t>::max();
  format::KeptForm keep_form = format::KeptForm::kWide;
};

/// One array of a batch, after its transforms.
struct BatchArray {
  BatchLayout layout = BatchLayout::kCsr;
  size_t value_bytes = 4;
  uint32_t columns = 0;
};

struct BudgetRequest {
  uint64_t memory_budget = 0;
  uint32_t sharers = 1;                   ///< workers that divide it equally
  std::vector<BatchArray> arrays = {{}};  ///< of a batch
  size_t packed_entry_bytes = 3;          ///< packed bytes of a non-zero: index and code
  bool keep = false;                      ///< rows stay after the epoch if all of the selection fit
  uint64_t kept_memory = 0;               ///< beside memory_budget, for rows that stay
};

/// Memory of the tables of rows, at most.
uint64_t table_bytes(const plan::Occupancy& peak);

/// Expected memory of the selected rows, bit-packed.
uint64_t packed_selection_bytes(const format::MatrixReader& reader,
                                std::span<const plan::UnitRows> units);

/// Splits the budget of one sharer. Throws ResourceExhausted with the least budget that works. It
/// is the same for every seed, epoch, rank and worker, so no later epoch is refused.
BudgetSplit split_budget(const BudgetRequest& request, const format::MatrixReader& reader,
                         std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch);

/// The split if rows are read one by one, each thread a batch at a time. It does not affect the
/// order.
struct RowBudgetSplit {
  uint64_t batch_bytes = 0;    ///< all batches together
  uint64_t reader_bytes = 0;   ///< expected, of one thread's rows
  uint32_t batches_ahead = 1;  ///< finished or being made
  uint32_t readers = 1;        ///< threads that read
};

/// Throws ResourceExhausted with the least budget that works: one reader, a batch, and one batch
/// that the consumer holds.
RowBudgetSplit split_row_budget(const BudgetRequest& request, const format::RowReader& reader,
                                uint64_t rows, const plan::EpochOptions& epoch, unsigned threads);

}  // namespace penstock::pipeline
