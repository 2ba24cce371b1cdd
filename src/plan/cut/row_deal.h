#pragma once

#include <penstock/row_selection.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Deals the rows of a selection among parts at random: random splits, plain, stratified and
// grouped.
//
// One pass over the rows, in ascending order. A row of stratum s goes to part p with probability
// (rows of s that p still needs) / (rows of s that are left). All deals with the wanted counts are
// therefore equally likely, and the counts are exact (selection sampling, D. Knuth, The Art of
// Computer Programming, vol. 2, 3.4.2, algorithm S, for more than two parts). Besides the parts it
// needs memory for one block of rows. The same seed gives the same deal on every machine.

namespace penstock::plan {

/// How many rows of each stratum each part gets: strata x parts, row-major.
struct DealCounts {
  std::vector<uint64_t> counts;
  size_t parts = 0;
};

/// `strata`: the stratum of each row by position; empty if there is one stratum. Throws
/// InvalidArgument if the counts of a stratum do not add up to its rows, or a stratum has none.
template <typename Stratum>
std::vector<RowSelection> deal_rows(const RowSelection& rows, std::span<const Stratum> strata,
                                    DealCounts counts, uint64_t seed);

extern template std::vector<RowSelection> deal_rows(const RowSelection&, std::span<const uint8_t>,
                                                    DealCounts, uint64_t);
extern template std::vector<RowSelection> deal_rows(const RowSelection&, std::span<const uint16_t>,
                                                    DealCounts, uint64_t);
extern template std::vector<RowSelection> deal_rows(const RowSelection&, std::span<const uint32_t>,
                                                    DealCounts, uint64_t);

}  // namespace penstock::plan
