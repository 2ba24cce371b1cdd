#include "pipeline/stream/units/unit_scheduler.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"

namespace penstock::pipeline {
namespace {

/// Rows packed by one task: about 0.3 MB, so that a task is worth its lock and a unit has several
/// tasks.
constexpr size_t kRowsPerPack = 64;

}  // namespace

UnitScheduler::UnitScheduler(const plan::EpochPlan& plan, const format::MatrixReader& reader,
                             const RowSelection& rows, BucketStore& store, uint32_t units_decoding,
                             uint32_t units_ahead, uint64_t first_batch, MemoryMeter& meter)
    : plan_(plan),
      reader_(reader),
      rows_(rows),
      store_(store),
      units_decoding_(units_decoding),
      units_ahead_(units_ahead),
      first_slot_(plan.batch_begin(first_batch)),
      meter_(meter),
      done_(plan.visit_count(), false),
      next_visit_(plan.earliest_visit(first_batch)),
      visits_done_(next_visit_) {}

UnitScheduler::~UnitScheduler() {
  for (const auto& flight : flights_) meter_.subtract(flight->charged_bytes);
  for (const Spare& spare : spares_) meter_.subtract(spare.charged_bytes);
}

bool UnitScheduler::set_visit_limit(size_t visit_limit) {
  visit_limit_ = std::max(visit_limit_, visit_limit);
  return open_fetched();
}

UnitFlight* UnitScheduler::begin_fetch() {
  if (next_visit_ >= std::min(visit_limit_ + units_ahead_, plan_.visit_count()) ||
      flights_.size() >= units_decoding_ + units_ahead_) {
    return nullptr;
  }
  auto flight = std::make_unique<UnitFlight>();
  flight->visit = next_visit_++;
  flight->fetching = true;
  const uint32_t unit = plan_.visit(flight->visit).unit;
  if (units_ahead_ == 0) {
    if (!spares_.empty()) {
      flight->decode = std::move(spares_.back().decode);
      flight->charged_bytes = spares_.back().charged_bytes;
      spares_.pop_back();
    }
    charge(*flight, reader_.in_flight_bytes(unit));
  } else {
    charge(*flight, reader_.fetched_bytes(unit));
  }
  flights_.push_back(std::move(flight));
  return flights_.back().get();
}

void UnitScheduler::charge(UnitFlight& flight, uint64_t bytes) {
  if (bytes <= flight.charged_bytes) return;
  meter_.add(bytes - flight.charged_bytes);
  flight.charged_bytes = bytes;
}

// Starts the tasks of fetched units, in order, within the limits. A unit without tasks is done at
// once, so the list is checked again.
bool UnitScheduler::open_fetched() {
  bool opened = false;
  for (bool again = true; again;) {
    again = false;
    for (const auto& flight : flights_) {
      if (decoding_ >= units_decoding_ || flight->visit >= visit_limit_) break;
      if (flight->fetching || flight->step != Step::kFetch) continue;
      if (units_ahead_ != 0) {
        if (!spares_.empty()) {
          flight->decode->take_buffers(*spares_.back().decode);
          meter_.subtract(flight->charged_bytes);
          flight->charged_bytes = spares_.back().charged_bytes;
          spares_.pop_back();
        }
        charge(*flight, reader_.in_flight_bytes(plan_.visit(flight->visit).unit));
      }
      ++decoding_;
      opened = true;
      again = open_next_step(*flight);
      break;
    }
  }
  return opened;
}

void UnitScheduler::fetch(UnitFlight& flight) {
  const plan::Visit& visit = plan_.visit(flight.visit);
  std::vector<plan::Placement> placements;
  plan_.place(flight.visit, placements);
  std::erase_if(placements, [&](const auto& each) { return each.slot < first_slot_; });
  std::vector<int64_t> unit_rows;
  rows_.copy_positions(visit.first_position, visit.selected_rows, unit_rows);

  // Decodes only the rows that this rank and worker keep, once each. A padded row has two
  // placements, a drawn row may have many.
  std::vector<int64_t> kept;
  kept.reserve(placements.size());
  flight.arriving.reserve(placements.size());
  flight.decoded_rows.reserve(placements.size());
  for (size_t i = 0; i < placements.size(); ++i) {
    const uint32_t row = placements[i].row;
    if (i == 0 || placements[i - 1].row != row) kept.push_back(unit_rows[row]);
    ArrivingRow arriving;
    arriving.slot = placements[i].slot;
    arriving.position = static_cast<int64_t>(visit.first_position + row);
    arriving.joinid = kept.back();
    flight.arriving.push_back(arriving);
    flight.decoded_rows.push_back(static_cast<uint32_t>(kept.size() - 1));
  }
  const size_t kept_count = kept.size();
  flight.decode = reader_.start(visit.unit, std::move(kept), std::move(flight.decode));
  flight.decode->fetch();
  if (flight.decode->row_count() != kept_count) {
    throw Internal(concat("a unit decodes ", flight.decode->row_count(),
                          " rows where it was given ", kept_count, ", unit ", visit.unit));
  }
}

bool UnitScheduler::end_fetch(UnitFlight* flight) {
  flight->fetching = false;
  bytes_read_ += flight->decode->bytes_read();
  read_count_ += flight->decode->read_count();
  const uint64_t cached = flight->decode->cached_bytes();
  cached_units_ += cached != 0 ? 1 : 0;
  cached_bytes_ += cached;
  kept_units_ += flight->decode->was_kept() ? 1 : 0;
  return open_fetched();
}

// Skips steps without tasks and removes a flight that reaches kDone.
bool UnitScheduler::open_next_step(UnitFlight& flight) {
  do {
    if (flight.step == Step::kFetch) {
      flight.step = Step::kDecode;
      flight.phase = 0;
    } else if (flight.step == Step::kDecode && flight.phase < flight.decode->phase_count()) {
      ++flight.phase;
    } else if (flight.step == Step::kPlace) {
      flight.step = Step::kPack;
    } else if (flight.step == Step::kPack) {
      flight.step = Step::kSettle;
    } else if (flight.step == Step::kSettle) {
      flight.step = Step::kDone;
    }
    if (flight.step == Step::kDecode && flight.phase == flight.decode->phase_count()) {
      flight.step = Step::kPlace;
    }
    flight.next_task = 0;
    flight.tasks_done = 0;
    switch (flight.step) {
      case Step::kDecode:
        flight.task_count = flight.decode->task_count(flight.phase);
        break;
      case Step::kPlace:
        flight.task_count = 1;
        break;
      case Step::kPack:
        flight.task_count =
            flight.to_pack == 0 ? 0 : (flight.arriving.size() + kRowsPerPack - 1) / kRowsPerPack;
        break;
      case Step::kSettle:
        flight.task_count = flight.spilled.empty() ? 0 : 1;
        break;
      default:
        finish(flight);
        return true;
    }
  } while (flight.task_count == 0);
  return true;
}

void UnitScheduler::finish(UnitFlight& flight) {
  done_[flight.visit] = true;
  --decoding_;
  while (visits_done_ < done_.size() && done_[visits_done_]) ++visits_done_;
  ++units_finished_;
  spares_.push_back({std::move(flight.decode), flight.charged_bytes});
  const auto at = std::find_if(flights_.begin(), flights_.end(),
                               [&](const auto& each) { return each.get() == &flight; });
  flights_.erase(at);
}

std::optional<UnitTask> UnitScheduler::take_task() {
  for (const auto& flight : flights_) {
    if (flight->fetching || flight->next_task >= flight->task_count) continue;
    return UnitTask{flight.get(), flight->step, flight->phase, flight->next_task++};
  }
  return std::nullopt;
}

bool UnitScheduler::finish_task(const UnitTask& task) {
  UnitFlight& flight = *task.flight;
  if (++flight.tasks_done < flight.task_count) return false;
  const uint64_t finished = units_finished_;
  const bool open = open_next_step(flight);
  if (units_finished_ != finished) open_fetched();
  return open;
}

void UnitScheduler::run(const UnitTask& task) {
  UnitFlight& flight = *task.flight;
  if (task.step == Step::kDecode) {
    flight.decode->run(task.phase, task.index);
  } else if (task.step == Step::kPlace) {
    place(flight);
  } else if (task.step == Step::kSettle) {
    // The file keeps the packed bytes; its pages are loaded again when read.
    for (const auto memory : flight.spilled) drop_resident(memory.data(), memory.size());
  } else {
    const size_t begin = task.index * kRowsPerPack;
    const size_t end = std::min(begin + kRowsPerPack, flight.arriving.size());
    for (size_t i = begin; i < end; ++i) {
      if (flight.arriving[i].bytes == 0) continue;
      // A row that repeats in its bucket is already packed.
      if (i != 0 && flight.arriving[i].destination == flight.arriving[i - 1].destination) continue;
      flight.decode->pack(flight.decoded_rows[i], flight.arriving[i].destination);
    }
  }
}

void UnitScheduler::place(UnitFlight& flight) {
  for (size_t i = 0; i < flight.arriving.size(); ++i) {
    flight.arriving[i].nnz = flight.decode->nnz(flight.decoded_rows[i]);
    flight.arriving[i].kept = flight.decode->kept(flight.decoded_rows[i]);
    if (flight.arriving[i].kept.record != nullptr) continue;
    flight.arriving[i].bytes = flight.decode->packed_bytes(flight.decoded_rows[i]);
    ++flight.to_pack;
  }
  store_.reserve(flight.arriving, flight.spilled);
  const auto by_address = [](const auto& a, const auto& b) { return a.data() < b.data(); };
  std::sort(flight.spilled.begin(), flight.spilled.end(), by_address);
  const auto same = [](const auto& a, const auto& b) { return a.data() == b.data(); };
  flight.spilled.erase(std::unique(flight.spilled.begin(), flight.spilled.end(), same),
                       flight.spilled.end());
}

}  // namespace penstock::pipeline
