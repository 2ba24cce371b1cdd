#include "pipeline/budget.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/byte_size.h"
#include "pipeline/memory/batch_pool.h"
#include "pipeline/memory/packed_row_ref.h"
#include "plan/cut/rank_cut.h"
#include "plan/memory/densest_rows.h"
#include "plan/memory/least_memory.h"
#include "plan/order/global_visits.h"

namespace penstock::pipeline {
namespace {

/// Levels from comfortable to the least that works. A level is used if it takes at most `1 / share`
/// of the budget, so that the rows keep the rest: longer queues than needed would worsen the
/// shuffle. Two units and two batches keep two cores busy; one unit loses a quarter of the speed.
/// One more batch than `batches` is counted, for the batch that the consumer holds.
struct Level {
  uint32_t units;
  uint32_t batches;
  uint32_t share;
};
constexpr Level kLevels[] = {{8, 16, 8}, {4, 8, 4}, {3, 6, 4}, {2, 4, 2},
                             {2, 2, 2},  {1, 2, 2}, {1, 1, 1}};

/// For a remote store. Two units keep two cores busy; more cores share their tiles.
constexpr uint32_t kRemoteDecoding = 3, kLeastRemoteDecoding = 2;
/// Fewer units ahead do not cover 100 ms at 100,000 cells a second. Then one unit fewer is decoded.
constexpr uint64_t kFewAhead = 12;
/// Enough for 100 ms at several hundred thousand cells a second. Each takes one waiting thread.
constexpr uint64_t kMostAhead = 48;

struct Sizes {
  uint64_t unit_bytes = 0;          ///< the largest unit in flight
  uint64_t batch_bytes = 0;         ///< one batch, as a block of the pool
  uint64_t row_bytes = 0;           ///< mean packed row of the densest unit
  uint64_t packed_batch_bytes = 0;  ///< the packed rows of a batch
  uint64_t fixed_bytes = 0;         ///< the plan itself
};

/// Returns the pool block of a batch of rows with `nnz` non-zeros each.
uint64_t batch_block(const BudgetRequest& request, uint64_t rows, double nnz) {
  uint64_t bytes = 0;
  size_t entry_bytes = 0;
  for (const BatchArray& array : request.arrays) {
    bytes += rows * 2 * sizeof(int64_t) + 512;
    if (array.layout == BatchLayout::kDense) {
      bytes += rows * array.columns * array.value_bytes;
    } else {
      bytes += rows * sizeof(int32_t);
      entry_bytes = std::max(entry_bytes, sizeof(int32_t) + array.value_bytes);
    }
  }
  bytes += static_cast<uint64_t>(static_cast<double>(rows) * nnz) * entry_bytes;
  // Rows that are cut into those of several arrays, while a batch is made.
  if (request.arrays.size() > 1) {
    bytes += static_cast<uint64_t>(static_cast<double>(rows) * nnz) * request.packed_entry_bytes;
  }
  return BatchPool::block_bytes(bytes);
}

Sizes measure(const BudgetRequest& request, const format::MatrixReader& reader,
              std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch) {
  Sizes sizes;
  uint64_t rows = 0;
  for (const plan::UnitRows& unit : units) {
    sizes.unit_bytes = std::max(sizes.unit_bytes, reader.in_flight_bytes(unit.unit));
    rows += unit.row_count;
  }
  sizes.row_bytes = static_cast<uint64_t>(plan::densest_row_bytes(units, 1)) + 1;
  const uint64_t batch_rows = std::min(plan::most_batch_rows(epoch), std::max<uint64_t>(rows, 1));
  // Stores keep a dataset's cells together, so at a small spread a batch may be from the densest
  // units.
  const double row_bytes = plan::densest_row_bytes(units, batch_rows);
  sizes.batch_bytes =
      batch_block(request, batch_rows, row_bytes / static_cast<double>(request.packed_entry_bytes));
  sizes.packed_batch_bytes = static_cast<uint64_t>(static_cast<double>(batch_rows) * row_bytes);
  sizes.fixed_bytes = units.size() * (sizeof(plan::UnitRows) + sizeof(plan::Visit) + 24);
  return sizes;
}

uint32_t page_size(uint64_t row_bytes) {
  const uint64_t wanted = std::bit_ceil(std::max<uint64_t>(row_bytes * 16, 4096));
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, uint64_t{1} << 20));
}

uint64_t reserve_of(const Sizes& sizes, const Level& level) {
  return sizes.fixed_bytes + sizes.unit_bytes * level.units +
         sizes.batch_bytes * (level.batches + 1);
}

/// Returns the budget that works at the last level for any order.
uint64_t least_budget(const Sizes& sizes, std::span<const plan::UnitRows> units,
                      const plan::EpochOptions& epoch) {
  if (units.empty()) return 0;
  const Level& last = *(std::end(kLevels) - 1);
  const uint64_t page = page_size(sizes.row_bytes);
  const uint64_t rows = plan::least_row_bytes(units, epoch, last.units, page);
  return reserve_of(sizes, last) + ((rows + page - 1) / page + 1) * page;
}

/// Layout of a level's rows.
struct Rows {
  uint32_t spread = 0;  ///< 0: does not fit
  uint64_t block_rows = 0;
};

/// Makes blocks of a global order as large as possible, because fewer blocks read less. A block
/// should have at least one batch; with smaller ones many would be open at a time.
Rows fit_blocks(std::span<const plan::UnitRows> units, plan::EpochOptions epoch,
                uint64_t budget_bytes, const Level& level, uint64_t page_bytes) {
  const uint64_t least = plan::most_batch_rows(epoch);
  epoch.block_rows =
      std::max(least, plan::global_block_rows(units, budget_bytes, level.units, page_bytes));
  for (;;) {
    const uint32_t spread =
        plan::EpochPlan::choose_spread(units, epoch, budget_bytes, level.units, page_bytes);
    if (spread != 0 || epoch.block_rows == least) return {spread, epoch.block_rows};
    epoch.block_rows = std::max(least, epoch.block_rows * 7 / 8);
  }
}

Rows fit_rows(std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch,
              uint64_t budget_bytes, const Level& level, uint64_t page_bytes) {
  if (epoch.global_order) return fit_blocks(units, epoch, budget_bytes, level, page_bytes);
  return {plan::EpochPlan::choose_spread(units, epoch, budget_bytes, level.units, page_bytes), 0};
}

/// Returns "1234567 bytes (1.2 MiB)". MiB are rounded up, so that this budget works, too.
std::string bytes_and_size(uint64_t bytes) {
  const std::string size = byte_size(bytes, Rounding::kUp);
  return bytes < 1024 ? size : std::to_string(bytes) + " bytes (" + size + ")";
}

/// For a remote store, decodes fewer units at once and fetches more.
void reach_ahead(const format::MatrixReader& reader, std::span<const plan::UnitRows> units,
                 uint64_t unit_bytes, BudgetSplit& split) {
  split.units_decoding = split.units_in_flight;
  if (!reader.remote() || split.units_in_flight < 2) return;
  uint64_t fetched_bytes = 1;
  for (const plan::UnitRows& unit : units) {
    fetched_bytes = std::max(fetched_bytes, reader.fetched_bytes(unit.unit));
  }
  const auto ahead_of = [&](uint32_t decoding) {
    const uint64_t bytes = unit_bytes * (split.units_in_flight - decoding);
    return std::min(bytes / fetched_bytes, kMostAhead);
  };
  uint32_t decoding = std::min(split.units_in_flight - 1, kRemoteDecoding);
  if (decoding > kLeastRemoteDecoding && ahead_of(decoding) < kFewAhead) --decoding;
  split.units_decoding = decoding;
  split.units_ahead = static_cast<uint32_t>(ahead_of(decoding));
}

/// A row that stays: its place in a block, its id and the ends of pages.
constexpr uint64_t kKeptRowBytes = sizeof(format::KeptRow) + sizeof(int64_t) + 8;
/// Bit-packing saves this much of a non-zero of two index bytes and one code.
constexpr double kPackedSaves = 1.75;

/// Bit-packed rows of a task end in half a memory page of 4 KiB on average. The order depends on
/// it, so it is the same where pages are larger.
constexpr uint64_t kPageEndBytes = 2048 / format::kKeptRowsPerTask;

/// Expected memory of the selected rows in each form.
struct KeptSizes {
  uint64_t wide = 0, packed = 0, rows = 0;
};

/// Of the selected rows of one unit, of which `bit_packed` is the share that bit-packing leaves.
KeptSizes kept_sizes(const plan::UnitRows& unit, double bit_packed) {
  if (unit.repeat != 0) return {};
  const uint64_t rows = unit.selected_rows();
  const uint64_t wide = unit.packed_bytes * rows / unit.row_count;
  const auto packed = static_cast<uint64_t>(static_cast<double>(wide) * bit_packed);
  return {wide + wide / 32 + kKeptRowBytes * rows,
          packed + packed / 32 + (kKeptRowBytes + kPageEndBytes) * rows, rows};
}

double bit_packed_share(const format::MatrixReader& reader) {
  const double cell = std::max(reader.packed_bytes_per_cell(), kPackedSaves + 1);
  return (cell - kPackedSaves) / cell;
}

KeptSizes kept_sizes(const format::MatrixReader& reader, std::span<const plan::UnitRows> units) {
  const double bit_packed = bit_packed_share(reader);
  KeptSizes sizes;
  for (const plan::UnitRows& unit : units) {
    const KeptSizes each = kept_sizes(unit, bit_packed);
    sizes.wide += each.wide;
    sizes.packed += each.packed;
    sizes.rows += each.rows;
  }
  return sizes;
}

/// Returns the end of the units whose bit-packed rows are expected to fit in `room`.
uint32_t end_of_kept_units(const format::MatrixReader& reader,
                           std::span<const plan::UnitRows> units, uint64_t room) {
  const double bit_packed = bit_packed_share(reader);
  uint64_t bytes = 0;
  for (const plan::UnitRows& unit : units) {
    bytes += kept_sizes(unit, bit_packed).packed;
    if (bytes > room) return unit.unit;
  }
  return std::numeric_limits<uint32_t>::max();
}

/// Returns the units as memory_budget sees them: rows below `kept_end` stay beside it, and only
/// their tables count. Not if rows are drawn: what earlier epochs drew may take their room.
std::vector<plan::UnitRows> with_kept_beside(std::span<const plan::UnitRows> units,
                                             uint32_t kept_end) {
  std::vector<plan::UnitRows> mixed(units.begin(), units.end());
  for (plan::UnitRows& unit : mixed) {
    const bool stays = unit.unit < kept_end && unit.drawn_from == 0;
    if (stays) unit.packed_bytes = 2 * sizeof(PackedRowRef) * unit.row_count;
  }
  return mixed;
}

/// Lowers a spread until `row_bytes` hold the tables of rows at their largest. They are most of
/// what kept rows take. Parts of units differ in size, so tables are larger than the plan expects.
uint32_t spread_with_tables(std::vector<plan::UnitRows> mixed, const plan::EpochOptions& epoch,
                            uint32_t spread, const BudgetSplit& split) {
  for (plan::UnitRows& unit : mixed) {
    const uint64_t tables = 2 * sizeof(PackedRowRef) * unit.row_count;
    unit.packed_bytes -= std::min(unit.packed_bytes, tables);
  }
  for (; spread > 1; spread = spread * 7 / 8) {
    const plan::EpochPlan plan(mixed, epoch, spread);
    const plan::Occupancy peak = plan.occupancy(split.units_in_flight, split.page_bytes);
    if (peak.peak_bytes + table_bytes(peak) <= split.row_bytes) break;
  }
  return spread;
}

/// Finds the form in which all rows of the selection fit. They stay where the epoch's buckets find
/// them, so these need tables alone, and pages for what estimates did not foresee. The order of the
/// epoch does not depend on it. Batches from bit-packed rows take `unpacked_bytes` more.
void choose_keep(const format::MatrixReader& reader, std::span<const plan::UnitRows> units,
                 uint64_t unpacked_bytes, BudgetSplit& split) {
  const KeptSizes sizes = kept_sizes(reader, units);
  const uint64_t tables = 2 * sizeof(PackedRowRef) * sizes.rows;
  const uint64_t spare = std::max<uint64_t>(split.row_bytes / 32, split.page_bytes);
  if (split.row_bytes < tables + spare) return;
  const uint64_t room = split.row_bytes - tables - spare;
  for (const auto& [form, needed] : {std::pair{format::KeptForm::kWide, sizes.wide},
                                     std::pair{format::KeptForm::kPacked, sizes.packed}}) {
    const uint64_t others = form == format::KeptForm::kPacked ? unpacked_bytes : 0;
    if (needed + others > room) continue;
    split.keep_room = room - others;
    split.keep_bytes = needed;
    split.keep_form = form;
    split.keep_packed_bytes = sizes.packed;
    split.unpacked_bytes = unpacked_bytes - others;
    return;
  }
}

/// Returns one sharer's part, which must be at least `least` bytes.
uint64_t part_of(const BudgetRequest& request, uint64_t least) {
  const uint64_t part = request.memory_budget / request.sharers;
  if (part >= least) return part;
  const std::string sharers = request.sharers == 1 ? ""
                                                   : " for " + std::to_string(request.sharers) +
                                                         " DataLoader workers, which share it";
  throw ResourceExhausted("memory_budget is too small: " + bytes_and_size(request.memory_budget) +
                          sharers + ", needed at least " + bytes_and_size(least * request.sharers) +
                          " for this matrix, selection and batch_size");
}

}  // namespace

uint64_t table_bytes(const plan::Occupancy& peak) {
  return sizeof(PackedRowRef) * std::max(2 * peak.peak_rows, peak.table_rows);
}

uint64_t packed_selection_bytes(const format::MatrixReader& reader,
                                std::span<const plan::UnitRows> units) {
  return kept_sizes(reader, units).packed;
}

BudgetSplit split_budget(const BudgetRequest& request, const format::MatrixReader& reader,
                         std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch) {
  const Sizes sizes = measure(request, reader, units, epoch);
  const uint64_t budget = part_of(request, least_budget(sizes, units, epoch));
  BudgetSplit split;
  split.page_bytes = page_size(sizes.row_bytes);
  for (const Level& level : kLevels) {
    const bool is_last = &level == std::end(kLevels) - 1;
    const uint64_t reserve = reserve_of(sizes, level);
    if (!is_last && reserve > budget / level.share) continue;
    const uint64_t left = budget > reserve ? budget - reserve : 0;
    // Whole pages, less one that the tables of rows use in part.
    const uint64_t pages = left / split.page_bytes;
    // Rows that were bit-packed, for each batch that is being made.
    const uint64_t unpacked = sizes.packed_batch_bytes * level.batches;
    const uint64_t beside = request.kept_memory > unpacked ? request.kept_memory - unpacked : 0;
    const uint32_t kept_end = beside == 0 ? 0 : end_of_kept_units(reader, units, beside);
    const auto mixed = with_kept_beside(units, kept_end);
    const Rows rows =
        fit_rows(mixed, epoch, (pages - std::min<uint64_t>(pages, 1)) * split.page_bytes, level,
                 split.page_bytes);
    if (rows.spread == 0 && !is_last) continue;
    split.row_bytes = left;
    split.batch_bytes = sizes.batch_bytes * (level.batches + 1);
    split.units_in_flight = level.units;
    split.batches_ahead = level.batches;
    if (!is_last) split.lower_budget = reserve * level.share - 1;
    split.spread = std::max(rows.spread, 1U);
    split.block_rows = rows.block_rows;
    reach_ahead(reader, units, sizes.unit_bytes, split);
    if (request.keep) choose_keep(reader, units, unpacked, split);
    if (beside != 0) {
      split.keep_beside = split.keep_bytes = beside;
      split.keep_form = format::KeptForm::kPacked;
      split.keep_unit_end = kept_end;
      const bool in_blocks = epoch.chunk_rows != 0 || epoch.global_order;
      if (!in_blocks) split.spread = spread_with_tables(mixed, epoch, split.spread, split);
    }
    break;
  }
  return split;
}

RowBudgetSplit split_row_budget(const BudgetRequest& request, const format::RowReader& reader,
                                uint64_t rows, const plan::EpochOptions& epoch, unsigned threads) {
  const uint64_t batch_rows = std::min(plan::most_batch_rows(epoch), std::max<uint64_t>(rows, 1));
  // Rows deviate by about their mean; a batch of many random rows deviates less.
  const double margin = 1 + 3 / std::sqrt(static_cast<double>(batch_rows));
  const double row_bytes = reader.buffer_bytes_per_row();
  const double nnz =
      reader.packed_bytes_per_row() * margin / static_cast<double>(request.packed_entry_bytes);
  const uint64_t batch = batch_block(request, batch_rows, nnz);
  RowBudgetSplit split;
  split.reader_bytes =
      static_cast<uint64_t>(static_cast<double>(batch_rows) * row_bytes * margin) + 4096;
  const uint64_t budget = part_of(request, split.reader_bytes + 2 * batch);
  // Readers come first, up to half of the memory. Then batches, as many as keep readers and
  // consumer from waiting for each other. Where no read waits these are few, and they stay in the
  // processor's cache: with 16 batches of 2 MB a cell costs 2.9 microseconds of CPU, with 4 it
  // costs 2.5 (an AnnData in memory, CSR, 32 MiB of cache).
  split.readers = static_cast<uint32_t>(
      std::clamp<uint64_t>(budget / 2 / (split.reader_bytes + batch), 1, std::max(threads, 1U)));
  const uint64_t left = budget - split.readers * split.reader_bytes;
  const uint64_t wanted = reader.in_memory() ? uint64_t{split.readers} + 2
                                             : std::max<uint64_t>(16, uint64_t{split.readers} * 3);
  split.batches_ahead = static_cast<uint32_t>(std::clamp<uint64_t>(left / batch - 1, 1, wanted));
  split.batch_bytes = batch * (uint64_t{split.batches_ahead} + 1);
  return split;
}

}  // namespace penstock::pipeline
