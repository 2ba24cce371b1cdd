#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Shares lots among takers in proportion to their quotas, lot by lot. Each taker gets its share of
// each lot (to within a row or so) and in the end exactly its quota. The lots must add up to the
// quotas.
//
//   Apportion apportion(quotas);
//   for each lot: counts = apportion.deal(lot)      counts add up to lot

namespace penstock::plan {

class Apportion {
 public:
  explicit Apportion(std::span<const uint64_t> quotas);

  /// O(takers log takers). The span is valid until the next call.
  std::span<const uint64_t> deal(uint64_t lot);

 private:
  std::vector<uint64_t> quotas_, given_, counts_;
  std::vector<uint32_t> by_claim_;
  uint64_t total_ = 0;
  uint64_t dealt_ = 0;
};

}  // namespace penstock::plan
