#include <penstock/error.h>
#include <penstock/resume.h>

#include <string>
#include <utility>

#include "plan/resume/segment_plan.h"

namespace penstock {
namespace plan {

uint64_t batches_of_worker(uint64_t batches, uint32_t worker, uint32_t active_workers) {
  return batches <= worker ? 0 : (batches - worker + active_workers - 1) / active_workers;
}

void check_plan(const ResumeSegment& segment, const PlanFacts& plan, std::string_view stored) {
  if (plan.fingerprint == segment.plan && plan.active_workers == segment.active_workers) return;
  throw InvalidArgument(
      "the state does not fit what is stored: it was saved by another version of penstock, or "
      "cells were written or consolidated since, in " +
      std::string(stored));
}

}  // namespace plan

EpochRun::EpochRun(const ResumeState& state, const LoaderOptions& options, bool is_worker)
    : epoch_(state.epoch),
      selection_(state.selection),
      earlier_(state.segments),
      order_(OrderSettings::of(options)),
      as_worker_(options.worker) {
  if (is_worker && options.num_workers > 1) worker_ = options.worker;
  if (earlier_.empty() || earlier_.back().order != order_) {
    // A worker's count is of its own batches: nobody knows which rows the others gave.
    if (state.worker) {
      throw InvalidArgument(
          "the state of a DataLoader worker resumes with the arguments that it was saved with; "
          "save Dataset.state_dict of the main process, which fits others");
    }
    return;
  }
  const ResumeSegment here = earlier_.back();
  earlier_.pop_back();
  plan_ = here.plan;
  active_workers_ = here.active_workers;
  batches_ = here.batches;
  if (!worker_) return;
  if (state.as_worker) {
    as_worker_ = *state.as_worker;
  } else if (*worker_ >= active_workers_) {  // it has no batches
    batches_ = 0;
  } else {  // the state counts what all workers gave: the first one is next in turn
    as_worker_ = static_cast<uint32_t>((*worker_ + here.batches) % active_workers_);
    batches_ = plan::batches_of_worker(here.batches, as_worker_, active_workers_);
  }
}

LoaderOptions EpochRun::loader_options(LoaderOptions left) const {
  left.epoch = epoch_;
  left.worker = as_worker_;
  left.first_batch = batches_;
  return left;
}

void EpochRun::set_plan(const PlanFacts& plan, std::string_view stored) {
  if (batches_ != 0) plan::check_plan({order_, plan_, active_workers_, batches_}, plan, stored);
  plan_ = plan.fingerprint;
  active_workers_ = plan.active_workers;
  size_ = plan.size;
}

ResumeState EpochRun::state() const {
  ResumeState state{epoch_, selection_, earlier_, worker_, std::nullopt};
  state.segments.push_back({order_, plan_, active_workers_, batches_});
  if (worker_) state.as_worker = as_worker_;
  return state;
}

}  // namespace penstock
