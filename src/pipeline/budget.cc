#include "pipeline/budget.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "pipeline/batch_pool.h"

namespace penstock::pipeline {
namespace {

/// From comfortable to the least that works. A level is taken when it leaves the rows what is over
/// after `1 / share` of the budget: queues that are longer than needed are paid for by the shuffle.
/// Two units and two batches keep two cores busy, one unit loses a quarter of the speed. One batch
/// more than `batches` is counted, for the consumer's hands.
struct Level {
  uint32_t units;
  uint32_t batches;
  uint32_t share;
};
constexpr Level kLevels[] = {{8, 16, 8}, {4, 8, 4}, {3, 6, 4}, {2, 4, 2},
                             {2, 2, 2},  {1, 2, 2}, {1, 1, 1}};

struct Sizes {
  uint64_t unit_bytes = 0;   ///< the largest unit in flight
  uint64_t batch_bytes = 0;  ///< one batch, as a block of the pool
  uint64_t row_bytes = 0;    ///< mean packed row
  uint64_t fixed_bytes = 0;  ///< the plan itself
};

Sizes measure(const BudgetRequest& request, const format::MatrixReader& reader,
              std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch) {
  Sizes sizes;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  double densest = 0;  // bytes a row, of the densest unit
  for (const plan::UnitRows& unit : units) {
    sizes.unit_bytes = std::max(sizes.unit_bytes, reader.in_flight_bytes(unit.unit));
    rows += unit.row_count;
    bytes += unit.packed_bytes;
    densest = std::max(densest, static_cast<double>(unit.packed_bytes) / unit.row_count);
  }
  sizes.row_bytes = rows == 0 ? 0 : bytes / rows + 1;
  const uint64_t batch_rows = std::min<uint64_t>(epoch.batch_size, std::max<uint64_t>(rows, 1));
  uint64_t batch = batch_rows * 2 * sizeof(int64_t) + 512;
  if (request.layout == BatchLayout::kDense) {
    batch += batch_rows * request.columns * request.value_bytes;
  } else {
    // Shuffled batches are near the mean, the more so the larger they are.
    const double row =
        epoch.shuffle ? std::min(densest, 1.25 * static_cast<double>(sizes.row_bytes)) : densest;
    const double nnz = row / static_cast<double>(request.packed_entry_bytes);
    batch += batch_rows * sizeof(int32_t) +
             static_cast<uint64_t>(static_cast<double>(batch_rows) * nnz) *
                 (sizeof(int32_t) + request.value_bytes);
  }
  sizes.batch_bytes = BatchPool::block_bytes(batch);
  sizes.fixed_bytes = units.size() * (sizeof(plan::UnitRows) + sizeof(plan::Visit) + 24);
  return sizes;
}

uint32_t page_size(uint64_t row_bytes) {
  const uint64_t wanted = std::bit_ceil(std::max<uint64_t>(row_bytes * 16, 4096));
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, uint64_t{1} << 20));
}

/// Visits between the first and the last bucket of any batch.
uint32_t visits_of_a_batch(std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch,
                           uint32_t spread) {
  const plan::EpochPlan plan(units, epoch, spread);
  uint32_t most = 0;
  size_t first = 0;
  size_t last = 0;
  for (uint64_t batch = 0; batch < plan.batch_count(); ++batch) {
    const uint64_t begin = plan.batch_begin(batch);
    const uint64_t end = plan.batch_begin(batch + 1);
    if (begin == end) continue;
    while (plan.bucket_begin(first + 1) <= begin) ++first;
    last = std::max(last, first);
    while (plan.bucket_begin(last + 1) < end) ++last;
    most = std::max(most, static_cast<uint32_t>(plan.last_visit_of_bucket(last) -
                                                plan.last_visit_of_bucket(first)));
  }
  return most;
}

/// The largest spread whose rows fit, and how many visits ahead a batch may have to reach then.
/// A batch that spans buckets keeps the first of them until the last is there: those visits count
/// as read ahead, but how many there are is only known from the plan that the spread gives.
struct SpreadChoice {
  uint32_t spread = 0;  ///< 0: nothing fits
  uint32_t units_ahead = 0;
  uint64_t least_bytes = 0;
};

SpreadChoice choose_spread(std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch,
                           uint64_t row_bytes, uint32_t units_in_flight, uint32_t page_bytes) {
  SpreadChoice choice;
  const auto choose = [&](uint32_t ahead) {
    return plan::EpochPlan::choose_spread(units, epoch, row_bytes, ahead, page_bytes,
                                          &choice.least_bytes);
  };
  uint32_t span = 1;
  for (int round = 0; round < 4; ++round) {
    const uint32_t spread = choose(units_in_flight + span);
    if (spread == 0) break;
    const uint32_t needed = visits_of_a_batch(units, epoch, spread);
    if (needed <= span) {
      choice.spread = spread;
      choice.units_ahead = units_in_flight + span;
      return choice;
    }
    span = needed;
  }
  // No spread agrees with its own reach: take none, whose reach is known.
  choice.units_ahead = units_in_flight + std::max(1U, visits_of_a_batch(units, epoch, 1));
  choice.spread = std::min(choose(choice.units_ahead), 1U);
  return choice;
}

uint64_t reserve_of(const Sizes& sizes, const Level& level) {
  return sizes.fixed_bytes + sizes.unit_bytes * level.units +
         sizes.batch_bytes * (level.batches + 1);
}

/// The first level that works, or nothing. `least_bytes` gets what the last one surely works with.
std::optional<BudgetSplit> try_levels(uint64_t memory_budget, const Sizes& sizes,
                                      std::span<const plan::UnitRows> units,
                                      const plan::EpochOptions& epoch, uint64_t* least_bytes) {
  const uint64_t page = page_size(sizes.row_bytes);
  for (const Level& level : kLevels) {
    const bool is_last = &level == std::end(kLevels) - 1;
    const uint64_t reserve = reserve_of(sizes, level);
    if (!is_last && reserve > memory_budget / level.share) continue;
    const uint64_t left = memory_budget > reserve ? memory_budget - reserve : 0;
    const auto choice =
        choose_spread(units, epoch, left / page * page, level.units, static_cast<uint32_t>(page));
    *least_bytes = reserve + (choice.least_bytes + page - 1) / page * page;
    if (choice.spread == 0) continue;
    BudgetSplit split;
    split.page_bytes = static_cast<uint32_t>(page);
    split.row_bytes = left;
    split.batch_bytes = sizes.batch_bytes * (level.batches + 1);
    split.units_in_flight = level.units;
    split.units_ahead = choice.units_ahead;
    split.batches_ahead = level.batches;
    split.spread = choice.spread;
    return split;
  }
  return std::nullopt;
}

/// The least budget that works, between `too_small` and one that does: a spread above 1 may need
/// less than none, so that only trying tells. Rows are given whole pages, so nothing in between is
/// worth a try.
uint64_t least_budget(uint64_t too_small, uint64_t works, const Sizes& sizes,
                      std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch) {
  const uint64_t page = page_size(sizes.row_bytes);
  const uint64_t reserve = reserve_of(sizes, *(std::end(kLevels) - 1));
  uint64_t ignored = 0;
  uint64_t pages_too_few = too_small > reserve ? (too_small - reserve) / page : 0;
  uint64_t pages = (works - reserve) / page;
  if (pages_too_few == 0 && try_levels(reserve, sizes, units, epoch, &ignored)) return reserve;
  while (pages - pages_too_few > 1) {
    const uint64_t middle = pages_too_few + (pages - pages_too_few) / 2;
    const bool enough =
        try_levels(reserve + middle * page, sizes, units, epoch, &ignored).has_value();
    (enough ? pages : pages_too_few) = middle;
  }
  return reserve + pages * page;
}

/// "1234567 bytes (1.2 MiB)", the MiB rounded up so that they are enough too.
std::string bytes_and_mebibytes(uint64_t bytes) {
  const uint64_t tenths = (bytes >> 20) * 10 + (((bytes & 0xFFFFF) * 10 + 0xFFFFF) >> 20);
  return std::to_string(bytes) + " bytes (" + std::to_string(tenths / 10) + "." +
         std::to_string(tenths % 10) + " MiB)";
}

}  // namespace

BudgetSplit split_budget(const BudgetRequest& request, const format::MatrixReader& reader,
                         std::span<const plan::UnitRows> units, const plan::EpochOptions& epoch) {
  const Sizes sizes = measure(request, reader, units, epoch);
  uint64_t works = 0;
  const auto split = try_levels(request.memory_budget, sizes, units, epoch, &works);
  if (split) return *split;
  throw ResourceExhausted(
      "memory_budget is too small: " + bytes_and_mebibytes(request.memory_budget) +
      ", needed at least " +
      bytes_and_mebibytes(least_budget(request.memory_budget, works, sizes, units, epoch)) +
      " for this matrix, selection and batch_size");
}

}  // namespace penstock::pipeline
