#pragma once

#include <penstock/row_selection.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "format/matrix_source.h"
#include "pipeline/memory/bucket_store.h"
#include "pipeline/memory/memory_meter.h"
#include "plan/epoch_plan.h"

// The units in flight, each a sequence of steps: fetch, the decoder's phases, place, pack, settle.
// The tasks of a step run concurrently on any threads; the next step starts when all are done.
// Workers take the next task of the oldest unit that has one. So threads share a unit, and while
// its last tasks run, other threads start on the next unit.
//
//   fetcher:  while (auto* flight = units.begin_fetch()) { fetch(*flight); units.end_fetch(…); }
//   worker:   while (auto task = units.take_task()) { run(*task); units.finish_task(*task); }
//
// With `units_ahead` (a remote store), that many more units are fetched. They wait with their
// stored bytes alone until the visit limit and the units being decoded let them continue.
//
// The queue operations are guarded by the caller's lock; fetch() and run() are called without it.

namespace penstock::pipeline {

/// kSettle only occurs if rows were spilled.
enum class Step : uint8_t { kFetch, kDecode, kPlace, kPack, kSettle, kDone };

/// One unit on its way from the store into the buckets.
struct UnitFlight {
  size_t visit = 0;
  std::unique_ptr<format::UnitDecode> decode;
  uint64_t charged_bytes = 0;                 ///< bytes reported to the memory meter
  std::vector<ArrivingRow> arriving;          ///< by ascending decoded row
  std::vector<uint32_t> decoded_rows;         ///< decoded row of each arriving row
  std::vector<std::span<std::byte>> spilled;  ///< memory in the spill file, by address
  size_t to_pack = 0;                         ///< arriving rows that are not kept elsewhere

  Step step = Step::kFetch;
  bool fetching = false;
  size_t phase = 0;       ///< of kDecode
  size_t task_count = 0;  ///< of this step
  size_t next_task = 0;
  size_t tasks_done = 0;
};

struct UnitTask {
  UnitFlight* flight = nullptr;
  Step step = Step::kDecode;
  size_t phase = 0;
  size_t index = 0;
};

class UnitScheduler {
 public:
  /// Only rows of batches from `first_batch` on are read.
  UnitScheduler(const plan::EpochPlan& plan, const format::MatrixReader& reader,
                const RowSelection& rows, BucketStore& store, uint32_t units_decoding,
                uint32_t units_ahead, uint64_t first_batch, MemoryMeter& meter);
  ~UnitScheduler();

  /// Under the lock. Visits before `visit_limit` may be decoded; `units_ahead` more may be fetched.
  /// Returns true if tasks became available.
  bool set_visit_limit(size_t visit_limit);
  /// Under the lock. Returns the next visit to fetch if it is within the limit and a place is free.
  UnitFlight* begin_fetch();
  /// Under the lock. Returns true if tasks became available.
  bool end_fetch(UnitFlight* flight);
  std::optional<UnitTask> take_task();
  /// Under the lock. Returns true if tasks became available or a unit was done.
  bool finish_task(const UnitTask& task);

  /// Without the lock.
  void fetch(UnitFlight& flight);
  void run(const UnitTask& task);

  /// All visits before this one are in their buckets.
  size_t visits_done() const noexcept { return visits_done_; }
  uint64_t units_finished() const noexcept { return units_finished_; }
  uint64_t bytes_read() const noexcept { return bytes_read_; }
  uint64_t read_count() const noexcept { return read_count_; }
  uint64_t cached_units() const noexcept { return cached_units_; }
  uint64_t cached_bytes() const noexcept { return cached_bytes_; }
  uint64_t kept_units() const noexcept { return kept_units_; }

 private:
  bool open_fetched();
  void charge(UnitFlight& flight, uint64_t bytes);
  bool open_next_step(UnitFlight& flight);
  void place(UnitFlight& flight);
  void finish(UnitFlight& flight);

  const plan::EpochPlan& plan_;
  const format::MatrixReader& reader_;
  const RowSelection rows_;
  BucketStore& store_;
  const uint32_t units_decoding_;
  const uint32_t units_ahead_;
  const uint64_t first_slot_;  ///< earlier rows have left
  MemoryMeter& meter_;

  /// A finished decoder, whose buffers the next unit reuses.
  struct Spare {
    std::unique_ptr<format::UnitDecode> decode;
    uint64_t charged_bytes = 0;
  };
  std::deque<std::unique_ptr<UnitFlight>> flights_;  ///< by visit
  std::vector<Spare> spares_;
  std::vector<bool> done_;  ///< by visit, from visits_done_ on
  size_t next_visit_;
  size_t visits_done_;
  uint64_t units_finished_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t read_count_ = 0;
  size_t visit_limit_ = 0;
  uint32_t decoding_ = 0;      ///< flights past kFetch
  uint64_t cached_units_ = 0;  ///< read from a cache
  uint64_t cached_bytes_ = 0;
  uint64_t kept_units_ = 0;  ///< whose rows were in memory
};

}  // namespace penstock::pipeline
