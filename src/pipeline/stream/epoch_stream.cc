#include "pipeline/stream/epoch_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace penstock::pipeline {
namespace {

/// Most units between fetch and buckets. Threads share a unit, so more than one for each thread
/// and one that is read would only take memory out of the cores' caches.
uint32_t units_decoding(const BudgetSplit& budget, unsigned threads) {
  if (budget.units_ahead != 0) return budget.units_decoding;
  return std::min(budget.units_decoding, threads + 1);
}

/// Number of threads that wait for reads: half the units in flight are read while the others are
/// decoded. Over a network, every unit that may be ahead waits at the same time.
uint32_t fetcher_count(const BudgetSplit& budget, unsigned threads) {
  const uint32_t decoding = units_decoding(budget, threads);
  return budget.units_ahead != 0 ? budget.units_ahead + decoding : (decoding + 1) / 2;
}

/// The memory of packed rows, beside the tables of rows: pages, and rows that are kept.
struct RowMemory {
  RowMemory(const BudgetSplit& budget, const plan::EpochPlan& plan)
      : page_bytes(budget.page_bytes), peak(plan.occupancy(budget.units_in_flight, page_bytes)) {
    const bool at_most = budget.keep_beside != 0;  // as split_budget counts
    const uint64_t tables = at_most ? table_bytes(peak) : 2 * sizeof(PackedRowRef) * peak.peak_rows;
    bytes = (budget.row_bytes > tables ? budget.row_bytes - tables : 0) + budget.keep_beside;
  }

  /// Bytes that pages never need, even if no row is kept.
  uint64_t spare() const noexcept { return bytes > peak.peak_bytes ? bytes - peak.peak_bytes : 0; }
  uint64_t page_capacity(uint64_t kept) const noexcept {
    return std::max<uint64_t>(bytes > kept ? bytes - kept : 0, page_bytes);
  }

  uint32_t page_bytes;
  plan::Occupancy peak;
  uint64_t bytes = 0;
};

}  // namespace

EpochStream::EpochStream(const format::MatrixSourcePtr& source, const LoaderOptions& options)
    : EpochStream(make_epoch_setup(source, options), options) {}

EpochStream::EpochStream(EpochSetup setup, const LoaderOptions& options)
    : BatchStream({setup.budget.batch_bytes, setup.budget.batches_ahead, setup.first_batch}),
      setup_(std::move(setup)),
      threads_(thread_count(options.threads)),
      plan_(setup_.units, setup_.epoch, setup_.budget.spread, setup_.sampler.get()),
      maker_(setup_.reader->row_layout(), options, setup_.columns, setup_.column_ids, batches_),
      decoder_(setup_.reader->row_layout(), setup_.columns),
      first_unmade_(setup_.first_batch),
      released_batch_(setup_.first_batch),
      all_kept_(setup_.all_kept) {
  set_batch_count(plan_.batch_count());
}

EpochStream::~EpochStream() { end(); }

// Rows that are kept with more columns stay only if this epoch's pages never need their memory.
void EpochStream::start() {
  const BudgetSplit& budget = setup_.budget;
  const RowMemory memory(budget, plan_);
  uint64_t kept = 0;  // of this memory
  if (setup_.keep != nullptr) {
    using Use = format::KeepReader::Use;
    const uint64_t room = budget.keep_room + budget.keep_beside;
    const Use use = setup_.keep->begin({.room = room,
                                        .spare = memory.spare(),
                                        .bytes = budget.keep_bytes,
                                        .form = budget.keep_form,
                                        .packed_bytes = budget.keep_packed_bytes,
                                        .unpacked_bytes = budget.unpacked_bytes,
                                        .unit_end = budget.keep_unit_end,
                                        .keeps_all = budget.keep_room != 0,
                                        .counts_on_kept = setup_.sampler == nullptr,
                                        .comes_back = setup_.epoch.global_order});
    if (use == Use::kKeeps) kept = room;
    if (use == Use::kChooses) kept = setup_.keep->kept_bytes();
    // Rows may have been dropped for want of room.
    all_kept_ = setup_.all_kept && setup_.keep->kept_rows() != nullptr;
  }
  store_ =
      std::make_unique<BucketStore>(plan_, memory.page_capacity(kept), budget.page_bytes, *meter_);
  units_ = std::make_unique<UnitScheduler>(plan_, *setup_.reader, setup_.rows, *store_,
                                           units_decoding(budget, threads_), budget.units_ahead,
                                           setup_.first_batch, *meter_);
  update_gate();
  start_threads(fetcher_count(budget, threads_), [this] { fetch(); });
  start_threads(threads_, [this] { work(); });
}

void EpochStream::wake_all() noexcept {
  BatchStream::wake_all();
  fetch_.notify_all();
}

// ---- workers ------------------------------------------------------------------------------------

void EpochStream::work() {
  BatchRows rows(decoder_, *meter_);
  const MutexLock lock(mutex_);
  while (!stop_ && !ring_.all_made()) {
    BatchJob job;
    if (claim_batch(job)) {
      make_batch(job, rows);
    } else if (const auto task = units_->take_task()) {
      run_task(*task);
    } else {
      work_.wait(mutex_);
    }
  }
}

void EpochStream::run_task(const UnitTask& task) {
  UnitScheduler& units = *units_;
  {
    const MutexUnlock unlocked(mutex_);
    units.run(task);
  }
  const uint64_t finished = units.units_finished();
  if (units.finish_task(task)) work_.notify_all();
  if (units.units_finished() != finished) fetch_.notify_one();
}

void EpochStream::prepare_claim() {
  next_job_.index = ring_.next_to_claim();
  next_job_.begin = plan_.batch_begin(next_job_.index);
  next_job_.end = plan_.batch_begin(next_job_.index + 1);
  // If ranks must have equally many batches, one may be empty and need no rows.
  if (next_job_.begin < next_job_.end) {
    while (plan_.bucket_begin(next_job_bucket_ + 1) < next_job_.end) ++next_job_bucket_;
    next_job_visits_ = std::max(next_job_visits_, plan_.last_visit_of_bucket(next_job_bucket_) + 1);
  }
  next_job_bytes_ = 0;
  next_job_known_ = true;
}

bool EpochStream::claim_batch(BatchJob& job) {
  if (!ring_.can_claim()) return false;
  if (!next_job_known_) prepare_claim();
  if (units_->visits_done() < next_job_visits_) return false;
  if (next_job_bytes_ == 0) {
    const uint64_t nnz = store_->nnz(next_job_.begin, next_job_.end);
    next_job_bytes_ = maker_.batch_bytes(next_job_.end - next_job_.begin, nnz);
  }
  // A consumer that keeps its batches may hold the whole share. It still gets one more at a time.
  const bool force = ring_.idle() && consumer_waits_;
  if (!batches_->reserve(next_job_bytes_, force)) return false;
  ring_.claim();
  job = next_job_;
  next_job_known_ = false;
  return true;
}

void EpochStream::make_batch(const BatchJob& job, BatchRows& rows) {
  BucketStore& store = *store_;
  std::shared_ptr<const Batch> batch;
  {
    const MutexUnlock unlocked(mutex_);
    store.rows(job.begin, job.end, rows.refs());
    rows.unpack();
    std::optional<uint32_t> repeated;
    const uint64_t slot = plan_.repeated_slot().value_or(UINT64_MAX);
    if (job.begin <= slot && slot < job.end) repeated = static_cast<uint32_t>(slot - job.begin);
    batch = maker_.make(rows.refs(), repeated);
  }
  if (ring_.finish(job.index, std::move(batch))) ready_.notify_one();
  const size_t at = job.index - first_unmade_;
  if (made_.size() <= at) made_.resize(at + 1, false);
  made_[at] = true;
  if (at == 0) {
    while (!made_.empty() && made_.front()) {
      made_.pop_front();
      ++first_unmade_;
    }
    const uint64_t done = first_unmade_;
    {
      const MutexUnlock unlocked(mutex_);
      store.release_before(plan_.batch_begin(done));
    }
    released_batch_ = std::max(released_batch_, done);
    update_gate();
  }
  if (ring_.all_made()) {
    work_.notify_all();
    fetch_.notify_all();
  }
}

// The first bucket that still holds rows limits how far reading may go. Visits that the batches
// starting in it need are always allowed, so that the next batch can always be made.
void EpochStream::update_gate() {
  if (released_batch_ >= plan_.batch_count()) return;
  const uint64_t slot = plan_.batch_begin(released_batch_);
  if (slot >= plan_.row_count()) return;
  while (plan_.bucket_begin(gate_bucket_ + 1) <= slot) ++gate_bucket_;
  const size_t limit = plan_.visit_before_release(gate_bucket_) + setup_.budget.units_in_flight + 1;
  if (limit <= visit_limit_) return;
  visit_limit_ = limit;
  if (units_->set_visit_limit(limit)) work_.notify_all();
  fetch_.notify_all();
}

// ---- fetchers -----------------------------------------------------------------------------------

void EpochStream::fetch() {
  const MutexLock lock(mutex_);
  UnitScheduler& units = *units_;
  while (!stop_ && !ring_.all_made()) {
    UnitFlight* const flight = units.begin_fetch();
    if (flight == nullptr) {
      fetch_.wait(mutex_);
      continue;
    }
    {
      const MutexUnlock unlocked(mutex_);
      units.fetch(*flight);
    }
    const uint64_t finished = units.units_finished();
    if (units.end_fetch(flight)) work_.notify_all();
    if (units.units_finished() != finished) fetch_.notify_all();
  }
}

// ---- the end ------------------------------------------------------------------------------------

void EpochStream::free_parts() noexcept {
  if (store_ == nullptr || units_ == nullptr) return;
  stats_at_end_ = {units_->units_finished(), units_->bytes_read(),   units_->read_count(),
                   store_->spilled_bytes(),  units_->cached_units(), units_->cached_bytes(),
                   units_->kept_units()};
  units_.reset();
  store_.reset();
  if (setup_.keep != nullptr) setup_.keep->release();
}

uint64_t EpochStream::row_count_before() const {
  const uint64_t slot = plan_.batch_begin(setup_.first_batch);
  return slot - (plan_.repeated_slot().value_or(slot) < slot ? 1 : 0);
}

RowSelection EpochStream::rows_before() const { return pipeline::rows_before(setup_, plan_); }

/// Peak of rows, units in flight and batches.
uint64_t EpochStream::planned_bytes() const {
  uint64_t largest_unit = 0;
  for (const auto& unit : setup_.units) {
    largest_unit = std::max(largest_unit, setup_.reader->in_flight_bytes(unit.unit));
  }
  const auto occupancy = plan_.occupancy(setup_.budget.units_in_flight, setup_.budget.page_bytes);
  const uint64_t rows = occupancy.peak_bytes + 2 * sizeof(PackedRowRef) * occupancy.peak_rows;
  const uint64_t in_flight = std::min<uint64_t>(setup_.budget.units_in_flight, plan_.visit_count());
  return std::min(rows, setup_.budget.row_bytes) + setup_.budget.keep_beside +
         in_flight * largest_unit + setup_.budget.batch_bytes;
}

void EpochStream::add_counts(LoaderStats& stats) const {
  stats.units = units_ != nullptr ? units_->units_finished() : stats_at_end_.units;
  stats.bytes_read = units_ != nullptr ? units_->bytes_read() : stats_at_end_.bytes_read;
  stats.requests = units_ != nullptr ? units_->read_count() : stats_at_end_.requests;
  stats.cached_units = units_ != nullptr ? units_->cached_units() : stats_at_end_.cached_units;
  stats.cached_bytes = units_ != nullptr ? units_->cached_bytes() : stats_at_end_.cached_bytes;
  stats.kept_units = units_ != nullptr ? units_->kept_units() : stats_at_end_.kept_units;
  if (setup_.keep != nullptr) {
    stats.all_kept = all_kept_ && stats.bytes_read == 0;
    stats.kept_bytes = setup_.keep->kept_bytes();
    stats.peak_buffered_bytes += stats.kept_bytes;
  }
  stats.units_in_shuffle = plan_.spread();
  stats.planned_units = plan_.visit_count() - plan_.earliest_visit(setup_.first_batch);
  stats.spilled_bytes = store_ != nullptr ? store_->spilled_bytes() : stats_at_end_.spilled_bytes;
}

}  // namespace penstock::pipeline
