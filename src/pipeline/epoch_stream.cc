#include "pipeline/epoch_stream.h"

#include <penstock/error.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/cancellation.h"

namespace penstock::pipeline {
namespace {

/// Threads that wait for reads: half the units in flight are read while the others are decoded.
/// Over a network every unit that may be ahead waits at the same time.
uint32_t fetcher_count(const BudgetSplit& budget) {
  if (budget.units_ahead != 0) return budget.units_ahead + budget.units_decoding;
  return (budget.units_decoding + 1) / 2;
}

unsigned thread_count(unsigned wanted) {
  if (wanted != 0) return wanted;
  return std::max(1U, std::thread::hardware_concurrency());
}

/// Pages get what the tables of rows leave of the rows' share.
uint64_t page_capacity(const BudgetSplit& budget, const plan::EpochPlan& plan) {
  const auto occupancy = plan.occupancy(budget.units_in_flight, budget.page_bytes);
  const uint64_t tables = 2 * sizeof(StoredRow) * occupancy.peak_rows;
  const uint64_t pages = budget.row_bytes > tables ? budget.row_bytes - tables : 0;
  return std::max<uint64_t>(pages, budget.page_bytes);
}

/// Rows, units in flight and batches at their most.
uint64_t planned_bytes(const EpochSetup& setup, const plan::EpochPlan& plan) {
  uint64_t largest_unit = 0;
  for (const auto& unit : setup.units) {
    largest_unit = std::max(largest_unit, setup.reader->in_flight_bytes(unit.unit));
  }
  const auto occupancy = plan.occupancy(setup.budget.units_in_flight, setup.budget.page_bytes);
  const uint64_t rows = occupancy.peak_bytes + 2 * sizeof(StoredRow) * occupancy.peak_rows;
  const uint64_t in_flight = std::min<uint64_t>(setup.budget.units_in_flight, plan.visit_count());
  return std::min(rows, setup.budget.row_bytes) + in_flight * largest_unit +
         setup.budget.batch_bytes;
}

}  // namespace

EpochStream::EpochStream(const format::MatrixSourcePtr& source, const LoaderOptions& options)
    : EpochStream(*source, make_epoch_setup(*source, options), options,
                  thread_count(options.threads)) {}

EpochStream::EpochStream(const format::MatrixSource& source, EpochSetup setup,
                         const LoaderOptions& options, unsigned threads)
    : setup_(std::move(setup)),
      threads_(threads),
      plan_(setup_.units, setup_.epoch, setup_.budget.spread, setup_.sampler.get()),
      batches_(std::make_shared<BatchPool>(setup_.budget.batch_bytes, meter_)),
      assembler_(setup_.reader->row_layout(), options.layout, options.dtype, setup_.columns,
                 setup_.column_ids, batches_, options.narrow_values, options.transforms),
      ring_(plan_.batch_count(), setup_.budget.batches_ahead, setup_.first_batch),
      first_unmade_(setup_.first_batch),
      released_batch_(setup_.first_batch) {
  if (setup_.first_batch > plan_.batch_count()) {
    throw InvalidArgument("first_batch is beyond the epoch: " + std::to_string(setup_.first_batch) +
                          " of " + std::to_string(plan_.batch_count()) + " batches");
  }
  for (size_t i = plan_.earliest_visit(setup_.first_batch); i < plan_.visit_count(); ++i) {
    planned_bytes_read_ += source.units()[plan_.visit(i).unit].stored_bytes;
  }
  // Under the lock: a worker that has just found no room must be asleep before it is woken.
  batches_->set_on_release([this] {
    { const std::lock_guard lock(mutex_); }
    work_.notify_one();
  });
}

EpochStream::~EpochStream() {
  cancel();
  join();
  free_memory();
}

bool EpochStream::in_other_process() const noexcept {
  const int process = process_id_;
  return process != 0 && process != ::getpid();
}

void EpochStream::start() {
  process_id_ = ::getpid();
  store_ = std::make_unique<BucketStore>(plan_, page_capacity(setup_.budget, plan_),
                                         setup_.budget.page_bytes, *meter_);
  units_ = std::make_unique<UnitScheduler>(plan_, *setup_.reader, setup_.rows, *store_,
                                           setup_.budget.units_decoding, setup_.budget.units_ahead,
                                           setup_.first_batch, *meter_);
  update_gate();
  started_ = true;
  try {
    const uint32_t fetchers = fetcher_count(setup_.budget);
    for (uint32_t i = 0; i < fetchers; ++i) {
      running_.emplace_back([this] { run_thread([this] { fetch(); }); });
    }
    for (unsigned i = 0; i < threads_; ++i) {
      running_.emplace_back([this] { run_thread([this] { work(); }); });
    }
  } catch (const std::system_error& error) {
    stop_ = true;
    throw ResourceExhausted("cannot start threads: " + std::string(error.what()) + ", " +
                            std::to_string(threads_) + " wanted, " +
                            std::to_string(running_.size()) + " started");
  }
}

void EpochStream::join() noexcept {
  for (std::thread& thread : running_) thread.join();
  running_.clear();
}

template <typename Loop>
void EpochStream::run_thread(Loop&& loop) noexcept {
  const CancelScope scope(&cancel_reads_);
  try {
    loop();
  } catch (...) {
    fail(std::current_exception());
  }
}

void EpochStream::fail(std::exception_ptr error) noexcept {
  cancel_reads_ = true;
  const std::lock_guard lock(mutex_);
  // Reads that cancel() ended are no errors.
  if (error_ == nullptr && !cancelled_) error_ = std::move(error);
  stop_ = true;
  work_.notify_all();
  fetch_.notify_all();
  ready_.notify_all();
}

void EpochStream::cancel() noexcept {
  if (in_other_process()) return;
  cancel_reads_ = true;
  const std::lock_guard lock(mutex_);
  stop_ = true;
  cancelled_ = true;
  work_.notify_all();
  fetch_.notify_all();
  ready_.notify_all();
}

// ---- workers ------------------------------------------------------------------------------------

void EpochStream::work() {
  std::vector<StoredRow> rows;
  std::unique_lock lock(mutex_);
  while (!stop_ && !ring_.all_made()) {
    BatchJob job;
    if (claim_batch(job)) {
      make_batch(job, rows, lock);
    } else if (const auto task = units_->take_task()) {
      run_task(*task, lock);
    } else {
      work_.wait(lock);
    }
  }
}

void EpochStream::run_task(const UnitTask& task, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  units_->run(task);
  lock.lock();
  const uint64_t finished = units_->units_finished();
  if (units_->finish_task(task)) work_.notify_all();
  if (units_->units_finished() != finished) fetch_.notify_one();
}

void EpochStream::prepare_claim() {
  next_job_.index = ring_.next_to_claim();
  next_job_.begin = plan_.batch_begin(next_job_.index);
  next_job_.end = plan_.batch_begin(next_job_.index + 1);
  // Where ranks must make equally many batches, one may be empty and need nothing.
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
    next_job_bytes_ = assembler_.batch_bytes(next_job_.end - next_job_.begin, nnz);
  }
  // A consumer that keeps its batches may hold the whole share; one at a time it still gets more.
  const bool force = ring_.idle() && consumer_waits_;
  if (!batches_->reserve(next_job_bytes_, force)) return false;
  ring_.claim();
  job = next_job_;
  next_job_known_ = false;
  return true;
}

void EpochStream::make_batch(const BatchJob& job, std::vector<StoredRow>& rows,
                             std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  store_->rows(job.begin, job.end, rows);
  std::optional<uint32_t> repeated;
  const uint64_t slot = plan_.repeated_slot().value_or(UINT64_MAX);
  if (job.begin <= slot && slot < job.end) repeated = static_cast<uint32_t>(slot - job.begin);
  auto batch = assembler_.assemble(rows, repeated);
  lock.lock();
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
    lock.unlock();
    store_->release_before(plan_.batch_begin(done));
    lock.lock();
    released_batch_ = std::max(released_batch_, done);
    update_gate();
  }
  if (ring_.all_made()) {
    work_.notify_all();
    fetch_.notify_all();
  }
}

// The first bucket that still holds rows decides how far reading may go. What the batches need that
// begin in it is always allowed, so that what is waited for can always come.
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
  std::unique_lock lock(mutex_);
  while (!stop_ && !ring_.all_made()) {
    UnitFlight* const flight = units_->begin_fetch();
    if (flight == nullptr) {
      fetch_.wait(lock);
      continue;
    }
    lock.unlock();
    units_->fetch(*flight);
    lock.lock();
    const uint64_t finished = units_->units_finished();
    if (units_->end_fetch(flight)) work_.notify_all();
    if (units_->units_finished() != finished) fetch_.notify_all();
  }
}

// ---- the consumer -------------------------------------------------------------------------------

void EpochStream::throw_error_once() {
  if (error_ == nullptr || error_thrown_) return;
  error_thrown_ = true;
  std::rethrow_exception(error_);
}

std::shared_ptr<const Batch> EpochStream::next(double timeout_seconds, bool* timed_out) {
  using Clock = std::chrono::steady_clock;
  if (timed_out != nullptr) *timed_out = false;
  if (in_other_process()) {
    throw InvalidArgument(
        "a Loader cannot be used in a forked process once it has started; make a "
        "new one there: started in process " +
        std::to_string(process_id_) + ", used in " + std::to_string(::getpid()));
  }
  std::unique_lock lock(mutex_);
  throw_error_once();
  if (stop_) return nullptr;
  if (ring_.at_end()) {
    lock.unlock();
    join();
    free_memory();
    return nullptr;
  }
  if (!started_) start();
  if (!ring_.ready()) {
    const auto begin = Clock::now();
    const auto came = [this] { return stop_ || ring_.ready(); };
    consumer_waits_ = true;
    work_.notify_one();
    if (timeout_seconds < 0) {
      ready_.wait(lock, came);
    } else {
      const auto wait = std::chrono::duration<double>(std::min(timeout_seconds, 1e6));
      ready_.wait_until(lock, begin + std::chrono::duration_cast<Clock::duration>(wait), came);
    }
    consumer_waits_ = false;
    wait_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  throw_error_once();
  if (stop_) return nullptr;
  if (!ring_.ready()) {
    if (timed_out != nullptr) *timed_out = true;
    return nullptr;
  }
  auto batch = ring_.take();
  cells_ += batch->rows();
  nonzeros_ += batch->nnz();
  work_.notify_one();
  return batch;
}

bool EpochStream::ready() const {
  if (in_other_process()) return false;
  const std::lock_guard lock(mutex_);
  return started_ && (stop_ || error_ != nullptr || ring_.ready() || ring_.at_end());
}

// The threads have ended. What decoders allocated goes back to the system too: glibc would keep it
// in the arenas of threads that are gone, 10 to 50 MB more in each of the first epochs.
void EpochStream::free_memory() {
  batches_->close();
  std::vector<std::shared_ptr<const Batch>> left;
  {
    const std::lock_guard lock(mutex_);
    left = ring_.take_all();
    if (store_ == nullptr) return;
    stats_at_end_ = {units_->units_finished(), units_->bytes_read(),   units_->read_count(),
                     store_->spilled_bytes(),  units_->cached_units(), units_->cached_bytes()};
    units_.reset();
    store_.reset();
  }
  left.clear();
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

uint64_t EpochStream::row_count_before() const {
  const uint64_t slot = plan_.batch_begin(setup_.first_batch);
  return slot - (plan_.repeated_slot().value_or(slot) < slot ? 1 : 0);
}

RowSelection EpochStream::rows_before() const { return pipeline::rows_before(setup_, plan_); }

LoaderStats EpochStream::stats() const {
  if (in_other_process()) return {};
  std::call_once(needed_once_, [&] { bytes_needed_ = bytes_needed(setup_, plan_); });
  LoaderStats stats = counts();
  stats.bytes_needed = bytes_needed_;
  stats.planned_bytes = planned_bytes(setup_, plan_);
  return stats;
}

LoaderStats EpochStream::counts() const {
  if (in_other_process()) return {};
  const std::lock_guard lock(mutex_);
  LoaderStats stats;
  stats.cells = cells_;
  stats.nonzeros = nonzeros_;
  stats.batches = ring_.delivered() - setup_.first_batch;
  stats.units = units_ != nullptr ? units_->units_finished() : stats_at_end_.units;
  stats.bytes_read = units_ != nullptr ? units_->bytes_read() : stats_at_end_.bytes_read;
  stats.requests = units_ != nullptr ? units_->read_count() : stats_at_end_.requests;
  stats.cached_units = units_ != nullptr ? units_->cached_units() : stats_at_end_.cached_units;
  stats.cached_bytes = units_ != nullptr ? units_->cached_bytes() : stats_at_end_.cached_bytes;
  stats.units_in_shuffle = plan_.spread();
  stats.consumer_wait_seconds = wait_seconds_;
  stats.peak_buffered_bytes = meter_->peak();
  stats.planned_units = plan_.visit_count() - plan_.earliest_visit(setup_.first_batch);
  stats.planned_bytes_read = planned_bytes_read_;
  stats.spilled_bytes = store_ != nullptr ? store_->spilled_bytes() : stats_at_end_.spilled_bytes;
  return stats;
}

}  // namespace penstock::pipeline
