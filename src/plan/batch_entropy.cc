#include "plan/batch_entropy.h"

#include <penstock/error.h>

#include <algorithm>
#include <cmath>

#include "base/concat.h"

namespace penstock::plan {
namespace {

/// log2(n) - sum(c log2(c)) / n over the labels' counts c; `counts` is all zeros before and after.
double entropy_of(std::span<const uint32_t> labels, std::vector<uint64_t>& counts) {
  if (labels.empty()) return 0;
  for (const uint32_t label : labels) ++counts[label];
  const auto rows = static_cast<double>(labels.size());
  double sum = 0;
  for (const uint32_t label : labels) {
    const auto count = static_cast<double>(counts[label]);
    counts[label] = 0;  // each label is counted where it comes first
    if (count > 1) sum += count * std::log2(count);
  }
  return std::max(0.0, std::log2(rows) - sum / rows);
}

uint32_t label_of(std::span<const uint32_t> labels, uint64_t position) {
  if (position < labels.size()) return labels[position];
  throw InvalidArgument(concat("there must be a label for each selected row: ", labels.size(),
                               " labels, and row ", position));
}

/// `by_slot`: the labels in the order of the epoch.
template <typename Plan>
BatchEntropy entropy_of_batches(const Plan& plan, std::span<const uint32_t> labels,
                                std::span<const uint32_t> by_slot) {
  const uint32_t most = labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end());
  if (!labels.empty() && most >= labels.size()) {
    throw InvalidArgument(concat("labels must be numbers below that of the rows: ", most, " among ",
                                 labels.size(), " rows"));
  }
  BatchEntropy result;
  result.label_rows.assign(size_t{most} + 1, 0);
  for (const uint32_t label : by_slot) ++result.label_rows[label];
  std::vector<uint64_t> counts(size_t{most} + 1);
  result.bits.reserve(plan.batch_count());
  for (uint64_t batch = 0; batch < plan.batch_count(); ++batch) {
    const uint64_t begin = plan.batch_begin(batch), end = plan.batch_begin(batch + 1);
    result.bits.push_back(entropy_of(by_slot.subspan(begin, end - begin), counts));
  }
  return result;
}

}  // namespace

BatchEntropy batch_entropy(const EpochPlan& plan, std::span<const uint32_t> labels) {
  std::vector<uint32_t> by_slot(plan.row_count());
  std::vector<Placement> placements;
  for (size_t i = 0; i < plan.visit_count(); ++i) {
    plan.place(i, placements);
    const uint64_t first = plan.visit(i).first_position;
    for (const Placement& each : placements)
      by_slot[each.slot] = label_of(labels, first + each.row);
  }
  return entropy_of_batches(plan, labels, by_slot);
}

BatchEntropy batch_entropy(const GlobalOrder& order, std::span<const uint32_t> labels) {
  std::vector<uint32_t> by_slot(order.row_count());
  for (uint64_t slot = 0; slot < by_slot.size(); ++slot) {
    by_slot[slot] = label_of(labels, order.position(slot));
  }
  return entropy_of_batches(order, labels, by_slot);
}

}  // namespace penstock::plan
