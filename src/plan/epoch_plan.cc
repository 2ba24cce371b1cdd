#include "plan/epoch_plan.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "plan/cut/first_visits.h"
#include "plan/cut/rank_cut.h"
#include "plan/memory/occupancy.h"
#include "plan/order/chunk_visits.h"
#include "plan/order/global_order.h"
#include "plan/order/global_visits.h"
#include "plan/order/row_sampler.h"
#include "plan/order/unit_order.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

void check_units(std::span<const UnitRows> units, const EpochOptions& options) {
  check_options(options);
  if (options.chunk_rows != 0 && (!options.shuffle || options.chunks_per_block == 0)) {
    throw InvalidArgument("shuffled chunks need shuffle and one or more chunks in a block");
  }
  if (options.global_order &&
      (!options.shuffle || options.chunk_rows != 0 || options.block_rows == 0)) {
    throw InvalidArgument("a global order needs shuffle, no chunks, and rows in a block");
  }
  for (const UnitRows& unit : units) {
    if (unit.row_count == 0 || unit.row_count == UINT32_MAX) {
      throw InvalidArgument("a unit to plan must have selected rows, fewer than 2^32 - 1: " +
                            std::to_string(unit.row_count) + " in unit " +
                            std::to_string(unit.unit));
    }
  }
}

bool reads_blocks(const EpochOptions& options) {
  return options.chunk_rows != 0 || options.global_order;
}

// Checks options and sets num_workers to the number of active workers, the only workers that get
// rows.
EpochOptions checked_options(std::span<const UnitRows> units, const EpochOptions& options) {
  check_units(units, options);
  EpochOptions checked = options;
  checked.shard.num_workers = active_workers_of(units.size(), options);
  return checked;
}

ChunkVisits block_visits(std::span<const UnitRows> units, const EpochOptions& options,
                         const GlobalOrder* global) {
  return global != nullptr ? global_visits(units, *global, options.block_rows)
                           : chunk_visits(units, options);
}

std::shared_ptr<const GlobalOrder> global_order(std::span<const UnitRows> units,
                                                const EpochOptions& options) {
  if (!options.global_order) return nullptr;
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  return std::make_shared<const GlobalOrder>(rows, options);
}

uint64_t rows_of(std::span<const Visit> visits) {
  uint64_t rows = 0;
  for (const Visit& visit : visits) rows += visit.row_count();
  return rows;
}

bool divides_visits(std::span<const UnitRows> units, std::span<const Visit> visits,
                    const EpochOptions& options) {
  const bool drawn = !units.empty() && units.front().drawn_from != 0;
  return options.shuffle && !drawn && is_alone(options) && !fits_at_once(rows_of(visits), options);
}

std::vector<Visit> plan_visits(std::span<const UnitRows> units, const EpochOptions& options) {
  const auto count = static_cast<uint32_t>(units.size());
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (options.shuffle) {
    order = stratified_order(count, random_key(options.seed, options.epoch, Purpose::kUnitOrder));
  }
  auto visits = cut_visits(units, order, options);
  return divides_visits(units, visits, options) ? divide_first_visits(std::move(visits), options)
                                                : visits;
}

// If all rows are one bucket, nothing leaves before everything is read.
uint32_t clamp_spread(uint64_t spread, std::span<const Visit> visits, const EpochOptions& options) {
  if (!options.shuffle || visits.empty()) return 1;
  const bool may_wait = !is_alone(options) || fits_at_once(rows_of(visits), options);
  const uint64_t most = may_wait ? visits.size() : visits.size() - 1;
  return static_cast<uint32_t>(std::clamp<uint64_t>(spread, 1, std::max<uint64_t>(most, 1)));
}

// Without shuffling every visit is its own bucket, as waiting gains nothing. Divided first visits
// are from so many places that three quarters of the rows mix as well.
size_t head_of(std::span<const Visit> visits, uint32_t spread, const EpochOptions& options) {
  if (!options.shuffle) return visits.empty() ? 0 : 1;
  const bool divided =
      is_alone(options) && !visits.empty() && visits[0].row_count() < visits[0].unit_rows;
  return head_visits(visits, spread, divided ? options.prefill_rows / 4 * 3 : options.prefill_rows);
}

// Returns a key for random numbers within one rank and worker.
uint64_t share_key(const EpochOptions& options, Purpose purpose) {
  return hash_combine(random_key(options.seed, options.epoch, purpose),
                      (uint64_t{options.shard.rank} << 32) | options.shard.worker);
}

std::vector<uint64_t> row_counts(std::span<const Visit> visits) {
  std::vector<uint64_t> counts;
  counts.reserve(visits.size() + 1);
  for (const Visit& visit : visits) counts.push_back(visit.row_count());
  return counts;
}

BucketLayout layout_of(std::span<const Visit> visits, uint32_t spread,
                       const EpochOptions& options) {
  return BucketLayout(row_counts(visits), spread, head_of(visits, spread, options),
                      share_key(options, Purpose::kDeal));
}

BucketLayout chunk_layout(const ChunkVisits& chunks) {
  return BucketLayout(row_counts(chunks.visits), chunks.block_begin);
}

uint32_t most_visits(const ChunkVisits& chunks) {
  size_t most = 1;
  for (size_t block = 1; block < chunks.block_begin.size(); ++block) {
    most = std::max(most, chunks.block_begin[block] - chunks.block_begin[block - 1]);
  }
  return static_cast<uint32_t>(most);
}

// While a block leaves, the next block is read, whether or not a batch reaches into it. A batch
// larger than a block reaches further.
std::vector<uint32_t> block_reach(const BucketLayout& layout, const BatchCut& cut) {
  std::vector<uint32_t> reach = batch_reach(layout, cut);
  for (size_t block = 0; block + 1 < reach.size(); ++block) {
    const auto next =
        static_cast<uint32_t>(layout.last_visit(block + 1) - layout.last_visit(block));
    reach[block] = std::max(reach[block], next);
  }
  return reach;
}

// Cuts the share's own rows, which are not all rows of the units.
BatchCut batch_cut(std::span<const UnitRows> units, uint64_t own_rows,
                   const EpochOptions& options) {
  uint64_t rows = 0;
  for (const UnitRows& unit : units) rows += unit.row_count;
  const Share share = share_of(rows, options, options.shard.rank, options.shard.worker);
  return {own_rows, share.batches, options.batch_size, options.uneven == UnevenRows::kExact};
}

uint64_t fingerprint_of(std::span<const UnitRows> units, const EpochOptions& options,
                        const RowSampler* sampler) {
  // Version of the plan: change it with anything that changes an order. Version 6 changed those of
  // one process alone, version 7 those of its stores of few units.
  const bool alone = options.shuffle && is_alone(options) && !reads_blocks(options);
  const bool few = units.size() < kLeastUnitsCutByRows && parts_are_stored_rows(units, options);
  uint64_t hash = !alone ? 5 : few ? 7 : 6;
  for (const uint64_t value :
       {options.seed, options.epoch, uint64_t{options.shuffle}, uint64_t{options.shard.world_size},
        uint64_t{options.shard.num_workers}, static_cast<uint64_t>(options.uneven),
        uint64_t{options.batch_size}, uint64_t{options.drop_last}, uint64_t{options.min_batch},
        uint64_t{units.size()}}) {
    hash = hash_combine(hash, value);
  }
  for (const UnitRows& unit : units) {
    hash = hash_combine(hash, (uint64_t{unit.unit} << 32) | unit.row_count);
    hash = hash_combine(hash, unit.first_position);
  }
  if (options.chunk_rows != 0) {
    hash = hash_combine(hash, (uint64_t{options.chunk_rows} << 32) | options.chunks_per_block);
  }
  if (sampler != nullptr) hash = hash_combine(hash, sampler->fingerprint());
  return hash;
}

// A plain shuffle takes a quarter of the time of a KeyedPermutation if all rows are needed.
std::vector<uint32_t> shuffled_rows(uint64_t key, uint32_t count) {
  std::vector<uint32_t> rows(count);
  RandomStream random(key);
  for (uint32_t i = 0; i < count; ++i) {
    const auto other = static_cast<size_t>(random.below(uint64_t{i} + 1));
    rows[i] = rows[other];
    rows[other] = i;
  }
  return rows;
}

bool by_row(const Placement& a, const Placement& b) {
  return a.row != b.row ? a.row < b.row : a.slot < b.slot;
}

}  // namespace

EpochPlan::EpochPlan(std::span<const UnitRows> units, const EpochOptions& options, uint32_t spread,
                     const RowSampler* sampler)
    : options_(checked_options(units, options)), sampler_(sampler) {
  if (sampler_ != nullptr && (!options_.shuffle || reads_blocks(options_))) {
    throw InvalidArgument("rows can only be drawn in an epoch of the scatter shuffle");
  }
  global_ = global_order(units, options_);
  if (reads_blocks(options_)) {
    chunks_ = std::make_shared<const ChunkVisits>(block_visits(units, options_, global_.get()));
    visits_ = chunks_->visits;
    spread_ = most_visits(*chunks_);
    layout_ = chunk_layout(*chunks_);
    batches_ = batch_cut(units, layout_.row_count(), options_);
    reach_ = block_reach(layout_, batches_);
  } else {
    visits_ = plan_visits(units, options_);
    stored_parts_ = !options_.shuffle || parts_are_stored_rows(units, options_);
    spread_ = clamp_spread(spread, visits_, options_);
    layout_ = layout_of(visits_, spread_, options_);
    batches_ = batch_cut(units, layout_.row_count(), options_);
    reach_ = batch_reach(layout_, batches_);
  }
  repeated_slot_ = global_ != nullptr ? global_->repeated_slot() : find_repeated_slot();
  fingerprint_ =
      global_ != nullptr ? global_->fingerprint() : fingerprint_of(units, options_, sampler_);
}

uint32_t EpochPlan::choose_spread(std::span<const UnitRows> units,
                                  const EpochOptions& options_given, uint64_t budget_bytes,
                                  uint32_t units_ahead, uint64_t page_bytes,
                                  uint64_t* least_bytes) {
  const EpochOptions options = checked_options(units, options_given);
  if (reads_blocks(options)) {
    const ChunkVisits chunks = block_visits(units, options, global_order(units, options).get());
    const BucketLayout layout = chunk_layout(chunks);
    const auto reach = block_reach(layout, batch_cut(units, layout.row_count(), options));
    const uint64_t needed =
        BytesPlayed(chunks.visits).peak(chunks.block_begin, reach, units_ahead, page_bytes);
    if (least_bytes != nullptr) *least_bytes = needed;
    return needed <= budget_bytes ? most_visits(chunks) : 0;
  }
  const auto visits = plan_visits(units, options);
  const BytesPlayed played(visits);
  const auto peak = [&](uint32_t spread) {
    const BucketLayout layout = layout_of(visits, spread, options);
    const auto reach = batch_reach(layout, batch_cut(units, layout.row_count(), options));
    return played.peak(spread, head_of(visits, spread, options), reach, units_ahead, page_bytes);
  };
  const uint64_t least = peak(1);
  if (least_bytes != nullptr) *least_bytes = least;
  const uint32_t most = clamp_spread(UINT32_MAX, visits, options);
  if (peak(most) <= budget_bytes) return most;
  if (least > budget_bytes) return 0;
  uint32_t fits = 1, too_much = most;
  while (too_much - fits > 1) {
    const uint32_t middle = fits + (too_much - fits) / 2;
    (peak(middle) <= budget_bytes ? fits : too_much) = middle;
  }
  return fits;
}

void EpochPlan::place(size_t visit_index, std::vector<Placement>& out) const {
  if (global_ != nullptr) return place_global(visit_index, out);
  const Visit& visit = visits_[visit_index];
  out.resize(visit.row_count());
  if (!options_.shuffle) {
    for_each_slot(visit_index, [&](uint64_t index, uint64_t slot) {
      const bool repeats = index == visit.own_rows();
      const uint64_t row = repeats ? visit.repeated_row : visit.part_begin + index;
      out[static_cast<size_t>(index)] = {static_cast<uint32_t>(row), slot};
    });
    if (visit.repeats_row) std::sort(out.begin(), out.end(), by_row);
    return;
  }
  const auto rows = dealt_rows(visit_index);
  const bool one_each = sampler_ == nullptr && chunks_ == nullptr &&
                        visit.row_count() == visit.unit_rows && !visit.repeats_row;
  for_each_slot(visit_index, [&](uint64_t index, uint64_t slot) {
    const uint32_t row = rows[static_cast<size_t>(index)];
    out[static_cast<size_t>(one_each ? row : index)] = {row, slot};
  });
  if (!one_each) std::sort(out.begin(), out.end(), by_row);
}

// Places the rows of the unit whose slots are in the visit's block.
void EpochPlan::place_global(size_t visit_index, std::vector<Placement>& out) const {
  const Visit& visit = visits_[visit_index];
  const auto& blocks = chunks_->block_begin;
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), visit_index);
  const uint64_t begin = layout_.rows_before(*std::prev(after));
  const uint64_t end = layout_.rows_before(*after);
  out.clear();
  out.reserve(visit.row_count());
  for (uint32_t row = 0; row < visit.selected_rows; ++row) {
    const uint64_t slot = global_->slot(visit.first_position + row);
    if (begin <= slot && slot < end) out.push_back({row, slot});
  }
  if (visit.repeats_row) {
    const uint64_t slot = *global_->repeated_slot();
    out.push_back({static_cast<uint32_t>(global_->position(slot) - visit.first_position), slot});
    std::sort(out.begin(), out.end(), by_row);
  }
}

template <typename Row>
void EpochPlan::for_each_slot(size_t visit_index, Row&& row) const {
  if (!options_.shuffle) {
    const uint64_t first = layout_.rows_before(visit_index);
    for (uint64_t i = 0; i < visits_[visit_index].row_count(); ++i) row(i, first + i);
    return;
  }
  const uint64_t bucket_key = share_key(options_, Purpose::kBucketRows);
  KeyedPermutation slots;
  uint64_t begin = 0;
  size_t current = SIZE_MAX;
  layout_.deal(visit_index, [&](uint64_t index, size_t bucket, uint64_t rank) {
    if (bucket != current) {
      current = bucket;
      begin = layout_.bucket_begin(bucket);
      slots = KeyedPermutation(hash_combine(bucket_key, bucket),
                               layout_.bucket_begin(bucket + 1) - begin);
    }
    row(index, begin + slots(rank));
  });
}

std::optional<uint64_t> EpochPlan::find_repeated_slot() const {
  std::optional<uint64_t> found;
  for (size_t visit = 0; visit < visits_.size() && !found; ++visit) {
    if (!visits_[visit].repeats_row) continue;
    const uint64_t last = visits_[visit].row_count() - 1;
    for_each_slot(visit, [&](uint64_t index, uint64_t slot) {
      if (index == last) found = slot;
    });
  }
  return found;
}

std::vector<uint32_t> EpochPlan::chunk_rows(size_t visit_index) const {
  std::vector<uint32_t> rows;
  rows.reserve(visits_[visit_index].row_count());
  for (size_t i = chunks_->range_begin[visit_index]; i < chunks_->range_begin[visit_index + 1];
       ++i) {
    const RowRange& range = chunks_->ranges[i];
    for (uint32_t row = 0; row < range.count; ++row) rows.push_back(range.begin + row);
  }
  return rows;
}

// The row that kPad repeats is the last.
std::vector<uint32_t> EpochPlan::dealt_rows(size_t visit_index) const {
  const Visit& visit = visits_[visit_index];
  const uint32_t unit_rows = visit.unit_rows;
  const uint64_t key = hash_combine(
      hash_combine(random_key(options_.seed, options_.epoch, Purpose::kUnitRows), visit.unit),
      visit.repeat);
  std::vector<uint32_t> rows;
  if (stored_parts_) {
    rows = shuffled_rows(hash_combine(key, visit.part_begin), visit.own_rows());
    for (uint32_t& row : rows) {
      row = static_cast<uint32_t>((uint64_t{visit.part_begin} + row) % unit_rows);
    }
    if (visit.repeats_row) rows.push_back(visit.repeated_row);
  } else {  // all shares of the unit see the same permutation
    const auto order = shuffled_rows(key, unit_rows);
    rows.resize(visit.own_rows());
    for (uint32_t i = 0; i < rows.size(); ++i) {
      rows[i] = order[(uint64_t{visit.part_begin} + i) % unit_rows];
    }
    if (visit.repeats_row) rows.push_back(order[visit.repeated_row]);
  }
  if (chunks_ != nullptr || sampler_ != nullptr) {
    const auto listed = chunks_ != nullptr ? chunk_rows(visit_index) : sampler_->rows(visit);
    for (uint32_t& row : rows) row = listed[row];
  }
  return rows;
}

uint64_t EpochPlan::row_count() const noexcept { return layout_.row_count(); }

uint64_t EpochPlan::batch_count() const noexcept { return batches_.batches; }

uint64_t EpochPlan::batch_begin(uint64_t batch) const { return batches_.begin(batch); }

size_t EpochPlan::bucket_of(uint64_t slot) const {
  size_t low = 0;
  size_t high = bucket_count();
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (bucket_begin(middle) <= slot ? low : high) = middle;
  }
  return low;
}

size_t EpochPlan::earliest_visit(uint64_t batch) const {
  const uint64_t slot = batch < batch_count() ? batch_begin(batch) : row_count();
  return slot < row_count() ? earliest_visit_of_bucket(bucket_of(slot)) : visit_count();
}

Occupancy EpochPlan::occupancy(uint32_t units_ahead, uint64_t page_bytes) const {
  Occupancy result;
  if (visits_.empty()) return result;
  const BytesPlayed played(visits_);
  result.peak_bytes = chunks_ != nullptr
                          ? played.peak(chunks_->block_begin, reach_, units_ahead, page_bytes)
                          : played.peak(spread_, head_of(visits_, spread_, options_), reach_,
                                        units_ahead, page_bytes);
  for (size_t bucket = 0; bucket < bucket_count(); ++bucket) {
    const size_t read = std::min(visit_before_release(bucket) + units_ahead, visit_count() - 1);
    result.peak_rows =
        std::max(result.peak_rows, layout_.rows_before(read + 1) - layout_.bucket_begin(bucket));
    const uint64_t table_end = bucket_begin(layout_.last_bucket(read) + 1);
    result.table_rows = std::max(result.table_rows, table_end - bucket_begin(bucket));
  }
  return result;
}

}  // namespace penstock::plan
