#include "pipeline/stream/epoch_setup.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/concat.h"
#include "format/handle_access.h"
#include "pipeline/batch/batch_parts.h"
#include "pipeline/batch/transformed_rows.h"
#include "pipeline/stream/units/selected_units.h"
#include "plan/cut/rank_cut.h"

namespace penstock::pipeline {
namespace {

/// If not all rows are kept, one part in so many of the memory mixes and decodes the others: the
/// first of these with which so many thirds of the units are mixed that all of it would mix.
struct MixingPart {
  uint64_t parts;
  uint64_t least_thirds;
};
constexpr MixingPart kMixingParts[] = {{4, 2}, {2, 1}};
/// At least one row in so many must fit.
constexpr uint64_t kLeastKeptPart = 4;

void check(const LoaderOptions& options) {
  if (options.batch_size == 0) throw InvalidArgument("batch_size must be 1 or more: 0");
  if (options.world_size == 0 || options.rank >= options.world_size) {
    throw InvalidArgument(concat("rank must be less than world_size: rank ", options.rank,
                                 ", world_size ", options.world_size));
  }
  if (options.num_workers == 0 || options.worker >= options.num_workers) {
    throw InvalidArgument(concat("worker must be less than num_workers: worker ", options.worker,
                                 ", num_workers ", options.num_workers));
  }
  const auto* chunks = std::get_if<ChunkShuffle>(&options.order);
  if (chunks != nullptr && (chunks->chunk_rows == 0 || chunks->chunks_per_block == 0)) {
    throw InvalidArgument(
        concat("chunks must have 1 row or more, and blocks 1 chunk or more: chunk_rows ",
               chunks->chunk_rows, ", chunks_per_block ", chunks->chunks_per_block));
  }
}

std::vector<int64_t> every_column(int64_t end) {
  if (end < 0 || end > std::numeric_limits<int32_t>::max()) {
    throw InvalidArgument(concat("too many columns for a batch, choose some: ", end));
  }
  std::vector<int64_t> columns(static_cast<size_t>(end));
  std::iota(columns.begin(), columns.end(), int64_t{0});
  return columns;
}

void check(const BatchPart& part, uint64_t rows) {
  if (!is_integer(part.dtype) && !is_floating(part.dtype)) {
    throw InvalidArgument("dtype must be float32, float64 or an integer type: " +
                          std::string(name_of(part.dtype)));
  }
  if (part.transforms == nullptr) return;
  const auto check_one = [&](const TransformStep::Numbers& totals) {
    if (totals == nullptr || totals->size() == rows) return;
    throw InvalidArgument(concat(
        "transforms: row_totals must have one number for each selected row: ", totals->size(),
        " for ", rows));
  };
  for (const TransformStep& step : part.transforms->steps) check_one(step.row_totals);
  if (part.transforms->tokens) check_one(part.transforms->tokens->row_totals);
}

plan::EpochOptions epoch_options(const LoaderOptions& options) {
  plan::EpochOptions epoch;
  epoch.seed = options.seed;
  epoch.epoch = options.epoch;
  epoch.shuffle = !std::holds_alternative<StoredOrder>(options.order);
  epoch.shard = {options.world_size, options.rank, options.num_workers, options.worker};
  epoch.uneven = options.uneven;
  epoch.batch_size = options.batch_size;
  epoch.drop_last = options.drop_last;
  epoch.min_batch = options.min_batch;
  if (const auto* chunks = std::get_if<ChunkShuffle>(&options.order)) {
    epoch.chunk_rows = chunks->chunk_rows;
    epoch.chunks_per_block = chunks->chunks_per_block;
  }
  epoch.global_order = std::holds_alternative<GlobalShuffle>(options.order);
  return epoch;
}

/// Sizes of kExact batches differ by at most one. The smallest is on the rank with the fewest rows.
void check_exact_batches(uint64_t rows, const plan::EpochOptions& epoch) {
  if (epoch.uneven != UnevenRows::kExact || epoch.min_batch <= 1 || rows == 0) return;
  const uint32_t ranks = epoch.shard.world_size;
  const uint64_t smallest = rows / ranks / plan::exact_batches(rows, epoch);
  if (smallest >= epoch.min_batch) return;
  throw InvalidArgument(
      concat("min_batch=", epoch.min_batch, " cannot be kept with uneven=\"exact\", which divides ",
             rows, " rows among ", ranks, " ranks, each in equally many batches of at most ",
             epoch.batch_size, ": use ",
             (smallest == 0 ? std::string("fewer ranks")
                            : "min_batch=" + std::to_string(smallest) + ", another batch_size"),
             ", or uneven=\"drop\" or \"pad\""));
}

}  // namespace

RowSelection selected_rows(const format::MatrixSource& source, const LoaderOptions& options) {
  return options.rows ? *options.rows : RowSelection::range(0, source.info().row_domain_end);
}

std::vector<int64_t> column_ids(const format::MatrixSource& source, const LoaderOptions& options) {
  return options.columns ? *options.columns : every_column(source.info().column_domain_end);
}

bool may_keep(const format::MatrixSource& source, const LoaderOptions& options) noexcept {
  return options.kept != nullptr && options.world_size == 1 && options.num_workers == 1 &&
         !source.in_memory();
}

StreamSetup make_stream_setup(const format::MatrixSourcePtr& source, const LoaderOptions& options) {
  check(options);
  StreamSetup setup;
  setup.rows = selected_rows(*source, options);
  const std::vector<int64_t> columns = column_ids(*source, options);
  setup.columns = static_cast<uint32_t>(columns.size());
  if (options.columns) {
    setup.column_ids = std::make_shared<const std::vector<int64_t>>(*options.columns);
  }
  if (may_keep(*source, options)) {
    setup.keep = std::make_shared<format::KeepReader>(HandleAccess::store(*options.kept), source,
                                                      columns, setup.rows);
    setup.reader = setup.keep;
  } else {
    setup.reader = source->reader(columns);
  }
  setup.epoch = epoch_options(options);
  setup.first_batch = options.first_batch;
  const auto* drawn = std::get_if<RowSampling>(&options.order);
  check_exact_batches(drawn != nullptr ? drawn->samples : setup.rows.size(), setup.epoch);
  const auto parts = chosen_parts(options, setup.column_ids.get(), setup.columns);
  for (const ChosenPart& each : parts) check(each.part, setup.rows.size());

  setup.request.memory_budget = options.memory_budget;
  setup.request.sharers = options.num_workers;
  setup.request.arrays.clear();
  for (const ChosenPart& each : parts) {
    const BatchPart& part = each.part;
    const BatchShape shape = batch_shape(part.transforms.get(), each.columns(), part.dtype);
    setup.request.arrays.push_back({part.layout, size_of(shape.dtype), shape.columns});
  }
  setup.request.packed_entry_bytes = setup.reader->row_layout().index_bytes + size_t{1};
  setup.request.keep = setup.keep != nullptr && options.kept_memory == 0;
  if (plan::is_alone(setup.epoch)) setup.request.kept_memory = options.kept_memory;
  return setup;
}

EpochSetup make_epoch_setup(const format::MatrixSource& source, StreamSetup chosen,
                            const LoaderOptions& options) {
  EpochSetup setup;
  static_cast<StreamSetup&>(setup) = std::move(chosen);
  setup.units = selected_units(source, *setup.reader, setup.rows,
                               options.stored_rows ? &*options.stored_rows : nullptr);
  if (const auto* drawn = std::get_if<RowSampling>(&options.order)) {
    setup.sampler =
        std::make_shared<const plan::RowSampler>(setup.units, *drawn, options.seed, options.epoch);
    setup.units = setup.sampler->units();
  }
  setup.request.sharers = plan::active_workers_of(setup.units.size(), setup.epoch);
  setup.budget = split_budget(setup.request, *setup.reader, setup.units, setup.epoch);
  setup.epoch.block_rows = setup.budget.block_rows;
  return setup;
}

uint64_t budget_that_keeps_all(const format::MatrixSourcePtr& source,
                               const LoaderOptions& options) {
  StreamSetup setup = make_stream_setup(source, options);
  if (!setup.request.keep) return 0;
  for (;;) {
    try {
      const EpochSetup epoch = make_epoch_setup(*source, setup, options);
      if (epoch.budget.keep_room != 0) return setup.request.memory_budget;
      setup.request.memory_budget = epoch.budget.lower_budget;
      const uint64_t needed = packed_selection_bytes(*epoch.reader, epoch.units);
      if (setup.request.memory_budget <= needed) return 0;
    } catch (const ResourceExhausted&) {
      return 0;  // too little to decode in
    }
  }
}

uint64_t memory_for_part_of_rows(const format::MatrixSourcePtr& source,
                                 const LoaderOptions& options) {
  const StreamSetup setup = make_stream_setup(source, options);
  const auto units = selected_units(*source, *setup.reader, setup.rows,
                                    options.stored_rows ? &*options.stored_rows : nullptr);
  const uint64_t least = packed_selection_bytes(*setup.reader, units) / kLeastKeptPart;
  if (options.memory_budget - options.memory_budget / kMixingParts[0].parts < least) return 0;
  uint32_t spread = 0;
  try {
    spread = make_epoch_setup(*source, setup, options).budget.spread;
  } catch (const ResourceExhausted&) {
    return 0;  // whoever reads the epoch learns it
  }
  for (const MixingPart& mixing : kMixingParts) {
    StreamSetup divided = setup;
    divided.request.memory_budget = options.memory_budget / mixing.parts;
    const uint64_t kept = options.memory_budget - divided.request.memory_budget;
    if (kept < least) break;
    divided.request.keep = false;
    divided.request.kept_memory = kept;
    try {
      const EpochSetup epoch = make_epoch_setup(*source, std::move(divided), options);
      if (3 * uint64_t{epoch.budget.spread} >= mixing.least_thirds * spread) return kept;
    } catch (const ResourceExhausted&) {
      // Too little to mix and decode in.
    }
  }
  return 0;
}

namespace {

constexpr size_t kIdsAtOnce = size_t{1} << 20;  // ids gathered before they are packed
/// If fewer than one row in so many of a unit is drawn, some of its tiles may hold no drawn row.
constexpr uint64_t kFewDraws = 16;

/// Whether a visit may need only some tiles of its unit.
bool keeps_few_rows(const EpochSetup& setup, const plan::EpochPlan& plan, size_t index) {
  const plan::Visit& visit = plan.visit(index);
  return plan.keeps_stored_part(index) ||
         (setup.sampler != nullptr && visit.unit_rows * kFewDraws < visit.selected_rows);
}

/// Appends the joinids of the rows that a visit keeps, ascending, once each.
void append_kept(const EpochSetup& setup, const plan::EpochPlan& plan, size_t index,
                 std::vector<int64_t>& ids) {
  std::vector<plan::Placement> placements;
  plan.place(index, placements);
  const uint64_t first = plan.visit(index).first_position;
  for (size_t i = 0; i < placements.size(); ++i) {
    if (i != 0 && placements[i].row == placements[i - 1].row) continue;
    ids.push_back(setup.rows.at(first + placements[i].row));
  }
}

RowSelection selection_of(std::vector<int64_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return RowSelection::from_sorted(ids);
}

}  // namespace

uint64_t bytes_needed(const EpochSetup& setup, const plan::EpochPlan& plan) {
  if (setup.sampler == nullptr && setup.first_batch == 0 && plan.row_count() == setup.rows.size())
    return setup.reader->bytes_needed(setup.rows);
  // Permuted rows of a unit touch nearly all of its tiles, so such units count as whole.
  std::vector<std::pair<uint64_t, uint32_t>> units;
  std::vector<int64_t> ids;
  for (size_t i = plan.earliest_visit(setup.first_batch); i < plan.visit_count(); ++i) {
    if (keeps_few_rows(setup, plan, i)) {
      append_kept(setup, plan, i, ids);
    } else {
      units.emplace_back(plan.visit(i).first_position, plan.visit(i).selected_rows);
    }
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  RowSelection touched = selection_of(ids);
  ids.clear();
  for (size_t i = 0; i < units.size(); ++i) {
    setup.rows.copy_positions(units[i].first, units[i].second, ids);
    if (ids.size() < kIdsAtOnce && i + 1 < units.size()) continue;
    touched = touched | RowSelection::from_sorted(ids);
    ids.clear();
  }
  return setup.reader->bytes_needed(touched);
}

uint64_t bytes_planned(const EpochSetup& setup, const plan::EpochPlan& plan) {
  uint64_t bytes = 0;
  std::vector<int64_t> ids;
  std::unordered_map<uint32_t, uint64_t>
      whole;  // bytes of units that are visited for all their rows
  for (size_t i = plan.earliest_visit(setup.first_batch); i < plan.visit_count(); ++i) {
    const plan::Visit& visit = plan.visit(i);
    const uint32_t unit = visit.unit;
    const bool few = uint64_t{visit.row_count()} * kFewDraws < visit.selected_rows;
    const bool again = setup.budget.keep_room != 0 && setup.epoch.global_order;
    if (!again && (few || setup.epoch.chunk_rows != 0 || keeps_few_rows(setup, plan, i))) {
      ids.clear();
      append_kept(setup, plan, i, ids);
      bytes += setup.reader->visit_bytes(unit, selection_of(ids));
      continue;
    }
    const auto [known, is_new] = whole.try_emplace(unit);
    if (is_new) known->second = setup.reader->visit_bytes(unit, setup.rows);
    // If all rows are to be kept, a later visit of the unit finds them.
    if (is_new || setup.budget.keep_room == 0) bytes += known->second;
  }
  return bytes;
}

RowSelection rows_before(const EpochSetup& setup, const plan::EpochPlan& plan) {
  const uint64_t slot = plan.batch_begin(setup.first_batch);
  RowSelection before;
  if (slot == 0) return before;
  std::vector<uint64_t> positions;
  std::vector<plan::Placement> placements;
  const uint64_t repeated = plan.repeated_slot().value_or(UINT64_MAX);
  const size_t visits = plan.last_visit_of_bucket(plan.bucket_of(slot - 1)) + 1;
  for (size_t visit = 0; visit < visits; ++visit) {
    plan.place(visit, placements);
    for (const plan::Placement& each : placements) {
      if (each.slot < slot && each.slot != repeated)
        positions.push_back(plan.visit(visit).first_position + each.row);
    }
    if (positions.size() < kIdsAtOnce && visit + 1 < visits) continue;
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());  // draws
    before = before | setup.rows.take(positions);
    positions.clear();
  }
  return before;
}

}  // namespace penstock::pipeline
