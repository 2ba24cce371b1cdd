#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/cut/bucket_layout.h"

namespace penstock::plan {

/// Where the batches of a share start. Batches are full except the last one, or (`even`) their
/// sizes differ by at most one.
struct BatchCut {
  uint64_t rows = 0;
  uint64_t batches = 0;
  uint64_t batch_size = 1;
  bool even = false;

  uint64_t begin(uint64_t batch) const noexcept {
    if (batch >= batches) return rows;
    if (even) {
      return static_cast<uint64_t>(static_cast<unsigned __int128>(rows) * batch / batches);
    }
    return std::min(batch * batch_size, rows);
  }
  /// The batch that holds a slot below `rows`.
  uint64_t batch_of(uint64_t slot) const noexcept {
    if (!even) return std::min(slot / batch_size, batches - 1);
    const auto parts = (static_cast<unsigned __int128>(slot) + 1) * batches - 1;
    return static_cast<uint64_t>(parts / rows);
  }
};

/// For each bucket, how many visits after its own last visit are needed by the batches that start
/// in it. Its rows stay in memory until these are read.
std::vector<uint32_t> batch_reach(const BucketLayout& layout, const BatchCut& cut);

}  // namespace penstock::plan
