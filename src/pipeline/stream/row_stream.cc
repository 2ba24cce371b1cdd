#include "pipeline/stream/row_stream.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"

namespace penstock::pipeline {
namespace {

/// Rows gathered at a time when all rows of an epoch are visited.
constexpr uint64_t kRowsAtOnce = uint64_t{1} << 18;

format::RowReaderPtr row_reader_of(const StreamSetup& setup) {
  auto reader = setup.reader->row_reader(setup.rows);
  if (reader == nullptr) {
    throw InvalidArgument("the rows of this store cannot be read one by one");
  }
  return reader;
}

const StreamSetup& checked(const StreamSetup& setup, const format::MatrixSource& source) {
  const int64_t end = source.info().row_domain_end;
  if (setup.rows.empty() || setup.rows.at(setup.rows.size() - 1) < end) return setup;
  throw InvalidArgument(concat("selected rows are outside the matrix: the last is ",
                               setup.rows.at(setup.rows.size() - 1), ", rows of the matrix end at ",
                               end));
}

RowBudgetSplit budget_of(const format::RowReader& reader, const StreamSetup& setup,
                         const LoaderOptions& options) {
  return split_row_budget(setup.request, reader, setup.rows.size(), setup.epoch,
                          thread_count(options.threads));
}

std::optional<int64_t> first_of_range(const RowSelection& rows) {
  if (rows.empty()) return std::nullopt;
  const int64_t first = rows.at(0);
  const auto span = static_cast<uint64_t>(rows.at(rows.size() - 1) - first) + 1;
  if (span != rows.size()) return std::nullopt;
  return first;
}

}  // namespace

struct RowStream::Worker {
  explicit Worker(MemoryMeter& meter) : meter_(meter) {}
  ~Worker() { meter_.subtract(counted_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void count_memory() {
    const uint64_t now =
        buffer.memory_bytes() + rows.capacity() * sizeof(PackedRowRef) +
        (positions.capacity() + joinids.capacity() + announced.capacity()) * sizeof(int64_t);
    if (now > counted_) meter_.add(now - counted_);
    if (now < counted_) meter_.subtract(counted_ - now);
    counted_ = now;
  }

  std::vector<int64_t> positions;
  std::vector<int64_t> joinids;
  std::vector<PackedRowRef> rows;
  format::RowBuffer buffer;
  std::vector<int64_t> announced;
  bool from_disk = false;  ///< the last read

 private:
  MemoryMeter& meter_;
  uint64_t counted_ = 0;
};

RowStream::RowStream(const format::MatrixSourcePtr& source, const LoaderOptions& options)
    : RowStream(*source, nullptr, make_stream_setup(source, options), options) {}

RowStream::RowStream(const format::MatrixSource& source, format::RowReaderPtr reader,
                     const StreamSetup& setup, const LoaderOptions& options)
    : RowStream(reader != nullptr ? std::move(reader) : row_reader_of(setup),
                checked(setup, source), options) {}

RowStream::RowStream(format::RowReaderPtr reader, const StreamSetup& setup,
                     const LoaderOptions& options)
    : RowStream(reader, setup, budget_of(*reader, setup, options), options) {}

RowStream::RowStream(format::RowReaderPtr reader, const StreamSetup& setup,
                     const RowBudgetSplit& budget, const LoaderOptions& options)
    : BatchStream({budget.batch_bytes, budget.batches_ahead, setup.first_batch}),
      reader_(std::move(reader)),
      setup_(setup),
      budget_(budget),
      order_(setup_.rows.size(), setup_.epoch),
      maker_(reader_->row_layout(), options, setup_.columns, setup_.column_ids, batches_),
      first_row_(first_of_range(setup_.rows)),
      next_room_(setup_.first_batch),
      ahead_(setup_.first_batch, order_.batch_count(), setup_.epoch.batch_size) {
  set_batch_count(order_.batch_count());
}

RowStream::~RowStream() { end(); }

void RowStream::start() {
  start_threads(budget_.readers, [this] { work(); });
}

// ---- workers ------------------------------------------------------------------------------------

void RowStream::work() {
  Worker worker(*meter_);
  const MutexLock lock(mutex_);
  while (!stop_ && !ring_.all_claimed()) {
    if (ring_.can_claim()) {
      make_batch(ring_.claim(), worker);
    } else {
      work_.wait(mutex_);
    }
  }
}

void RowStream::make_batch(uint64_t batch, Worker& worker) {
  const ReadAhead::Batches ahead = ahead_.before_read_of(batch);
  size_t bytes = 0;
  {
    const MutexUnlock unlocked(mutex_);
    read_rows(batch, ahead, worker);
    uint64_t nnz = 0;
    for (const PackedRowRef& row : worker.rows) nnz += row.nnz;
    bytes = maker_.batch_bytes(worker.rows.size(), nnz);
  }
  ahead_.after_read(worker.from_disk);
  bytes_read_ += worker.buffer.bytes_read;
  cached_bytes_ += worker.buffer.cached_bytes;
  read_count_ += worker.buffer.read_count;
  if (!wait_for_room(batch, bytes)) return;
  std::shared_ptr<const Batch> made;
  {
    const MutexUnlock unlocked(mutex_);
    std::optional<uint32_t> repeated;
    const uint64_t begin = order_.batch_begin(batch), end = order_.batch_begin(batch + 1);
    const uint64_t slot = order_.repeated_slot().value_or(UINT64_MAX);
    if (begin <= slot && slot < end) repeated = static_cast<uint32_t>(slot - begin);
    made = maker_.make(worker.rows, repeated);
  }
  if (ring_.finish(batch, std::move(made))) ready_.notify_one();
}

void RowStream::read_rows(uint64_t batch, const ReadAhead::Batches& ahead, Worker& worker) const {
  const DiskReads disk;
  for (uint64_t next = ahead.first; next < ahead.last; ++next) {
    worker.positions.clear();
    worker.announced.clear();
    append_rows(order_.batch_begin(next), order_.batch_begin(next + 1), worker.positions,
                worker.announced);
    reader_->prefetch(worker.announced);
  }
  worker.positions.clear();
  worker.joinids.clear();
  append_rows(order_.batch_begin(batch), order_.batch_begin(batch + 1), worker.positions,
              worker.joinids);
  if (!worker.joinids.empty()) reader_->read(worker.joinids, worker.buffer);
  worker.from_disk = disk.any();
  worker.rows.resize(worker.joinids.size());
  for (size_t i = 0; i < worker.rows.size(); ++i) {
    worker.rows[i] = {worker.buffer.records[i], worker.positions[i], worker.joinids[i],
                      worker.buffer.nnz[i]};
  }
  worker.count_memory();
}

bool RowStream::wait_for_room(uint64_t batch, size_t bytes) {
  for (;;) {
    if (stop_) return false;
    // A consumer that keeps its batches may hold the whole share. It still gets one more at a time.
    const bool force = consumer_waits_ && batch == ring_.delivered();
    if (batch == next_room_ && batches_->reserve(bytes, force)) break;
    work_.wait(mutex_);
  }
  ++next_room_;
  work_.notify_all();
  return true;
}

void RowStream::append_rows(uint64_t begin, uint64_t end, std::vector<int64_t>& positions,
                            std::vector<int64_t>& joinids) const {
  for (uint64_t slot = begin; slot < end; ++slot) {
    const uint64_t position = order_.position(slot);
    positions.push_back(static_cast<int64_t>(position));
    joinids.push_back(first_row_ ? *first_row_ + static_cast<int64_t>(position)
                                 : setup_.rows.at(position));
  }
}

// ---- what it tells ------------------------------------------------------------------------------

uint64_t RowStream::row_count_before() const {
  const uint64_t slot = order_.batch_begin(setup_.first_batch);
  return slot - (order_.repeated_slot().value_or(slot) < slot ? 1 : 0);
}

RowSelection RowStream::rows_before() const {
  const uint64_t end = row_count_before();  // the repeated row comes last
  RowSelection before;
  std::vector<uint64_t> positions;
  for (uint64_t slot = 0; slot < end;) {
    positions.clear();
    for (; slot < end && positions.size() < kRowsAtOnce; ++slot) {
      positions.push_back(order_.position(slot));
    }
    std::sort(positions.begin(), positions.end());
    before = before | setup_.rows.take(positions);
  }
  return before;
}

uint64_t RowStream::find_bytes_needed() const {
  const uint64_t first = order_.batch_begin(setup_.first_batch);
  if (first == 0 && order_.row_count() == setup_.rows.size()) {
    return setup_.reader->bytes_needed(setup_.rows);
  }
  uint64_t bytes = 0;
  std::vector<int64_t> positions, joinids;
  for (uint64_t slot = first; slot < order_.row_count(); slot += kRowsAtOnce) {
    positions.clear();
    joinids.clear();
    append_rows(slot, std::min(slot + kRowsAtOnce, order_.row_count()), positions, joinids);
    bytes += reader_->bytes_needed(joinids);
  }
  return bytes;
}

uint64_t RowStream::planned_bytes() const {
  return budget_.reader_bytes * budget_.readers + budget_.batch_bytes;
}

void RowStream::add_counts(LoaderStats& stats) const {
  stats.bytes_read = bytes_read_;
  stats.cached_bytes = cached_bytes_;
  stats.requests = read_count_;
  stats.requests_rows = reader_->request_bytes() != 0;
  if (setup_.keep != nullptr) {
    stats.all_kept = setup_.all_kept && bytes_read_ == 0;
    stats.kept_bytes = setup_.keep->kept_bytes();
    stats.peak_buffered_bytes += stats.kept_bytes;
  }
}

}  // namespace penstock::pipeline
