#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/epoch_plan.h"
#include "plan/order/global_order.h"

// Measures how well an epoch is mixed from its plan alone: the entropy of a label (such as the
// dataset of a row) in each batch. Reads no data.

namespace penstock::plan {

struct BatchEntropy {
  std::vector<double> bits;          ///< of each batch, from the first; 0 for a batch without rows
  std::vector<uint64_t> label_rows;  ///< rows of the epoch with each label
};

/// `labels`: a number for each row, by position in the selection, below the number of rows. Needs 4
/// bytes a row of the epoch. Throws InvalidArgument for too few labels or a label that is too
/// large.
BatchEntropy batch_entropy(const EpochPlan& plan, std::span<const uint32_t> labels);
BatchEntropy batch_entropy(const GlobalOrder& order, std::span<const uint32_t> labels);

}  // namespace penstock::plan
