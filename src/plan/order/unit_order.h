#pragma once

#include <cstdint>
#include <vector>

// The order in which an epoch visits the units: random, and stratified at every scale.
//
// Stores keep the cells of a dataset together, so a window of a plain random order holds a dataset
// too often or not at all. Here neighbours in the store are split between the two halves of the
// epoch, in each half the remaining neighbours between its quarters, and so on, each pair by its
// own coin toss. Every stretch of the order therefore holds units from all parts of the store in
// proportion, and each unit is equally likely at each place.

namespace penstock::plan {

/// A permutation of [0, count), a function of count and key. O(count log count).
std::vector<uint32_t> stratified_order(uint32_t count, uint64_t key);

}  // namespace penstock::plan
