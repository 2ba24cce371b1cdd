#pragma once

#include <penstock/resume.h>

#include <cstdint>
#include <string_view>

namespace penstock::plan {

/// How many of a rank's first batches come from one of its workers: batches are taken from workers
/// in turns.
uint64_t batches_of_worker(uint64_t batches, uint32_t worker, uint32_t active_workers);

/// Throws InvalidArgument unless the plan is the segment's. `stored` names what was read.
void check_plan(const ResumeSegment& segment, const PlanFacts& plan, std::string_view stored);

}  // namespace penstock::plan
