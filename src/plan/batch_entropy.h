#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/epoch_plan.h"
#include "plan/order/global_order.h"

// How well an epoch is mixed, told from its plan without reading anything: the entropy of a label
// (the dataset of a row, say) in each batch.

namespace penstock::plan {

struct BatchEntropy {
  std::vector<double> bits;          ///< of each batch, from the first; 0 for one without rows
  std::vector<uint64_t> label_rows;  ///< rows of the epoch with each label
};

/// `labels`: a number for each row, by position in the selection, below the number of rows. Takes 4
/// bytes a row of the epoch. Throws InvalidArgument for too few labels or one that is too large.
BatchEntropy batch_entropy(const EpochPlan& plan, std::span<const uint32_t> labels);
BatchEntropy batch_entropy(const GlobalOrder& order, std::span<const uint32_t> labels);

}  // namespace penstock::plan
