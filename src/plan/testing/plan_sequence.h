#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/epoch_plan.h"

// The order that a plan gives, found by following it.

namespace penstock::plan::testing {

/// Returns the positions (in the selection) in the order in which they leave. Checks that slots are
/// a bijection, that a row arrives before its bucket leaves, and that batches tile the rows.
inline std::vector<uint64_t> sequence_of(const EpochPlan& plan) {
  std::vector<uint64_t> sequence(plan.row_count(), UINT64_MAX);
  std::vector<Placement> placements;
  for (size_t i = 0; i < plan.visit_count(); ++i) {
    const Visit& visit = plan.visit(i);
    plan.place(i, placements);
    EXPECT_EQ(placements.size(), visit.row_count());
    uint32_t previous = 0;
    for (const Placement& placement : placements) {
      EXPECT_LT(placement.row, visit.unit_rows);
      EXPECT_GE(placement.row, previous);
      previous = placement.row;
      EXPECT_LT(placement.slot, sequence.size());
      if (placement.slot >= sequence.size()) continue;
      EXPECT_EQ(sequence[placement.slot], UINT64_MAX);
      sequence[placement.slot] = visit.first_position + placement.row;
      // A row must not arrive after its bucket has left.
      size_t low = 0, high = plan.bucket_count();
      while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        (plan.bucket_begin(middle) <= placement.slot ? low : high) = middle;
      }
      EXPECT_LE(i, plan.last_visit_of_bucket(low));
    }
  }
  EXPECT_EQ(std::count(sequence.begin(), sequence.end(), UINT64_MAX), 0);
  if (plan.bucket_count() > 0) {
    EXPECT_EQ(plan.bucket_begin(0), 0u);
    EXPECT_EQ(plan.bucket_begin(plan.bucket_count()), plan.row_count());
    EXPECT_EQ(plan.last_visit_of_bucket(plan.bucket_count() - 1), plan.visit_count() - 1);
  }
  EXPECT_EQ(plan.batch_begin(0), 0u);
  EXPECT_EQ(plan.batch_begin(plan.batch_count()), plan.row_count());
  return sequence;
}

}  // namespace penstock::plan::testing
