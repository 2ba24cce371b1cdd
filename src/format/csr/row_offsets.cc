#include "format/csr/row_offsets.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"

namespace penstock::format {

void RowOffsets::append(uint64_t offset) {
  if (count_ == 0 && offset != 0) {
    throw CorruptData(concat("indptr must begin with 0, not with ", offset));
  }
  if (offset < last_) {
    throw CorruptData(
        concat("indptr falls from ", last_, " to ", offset, " after row ", count_ - 1));
  }
  if ((count_ & ((uint64_t{1} << kBlockBits) - 1)) == 0) blocks_.push_back(offset);
  const uint64_t within = offset - blocks_.back();
  if (within > 0xFFFFFFFFU) {
    throw Unsupported(concat("rows near row ", count_, " have more than 2^32 non-zeros together"));
  }
  within_.push_back(static_cast<uint32_t>(within));
  last_ = offset;
  ++count_;
}

uint64_t RowOffsets::row_of(uint64_t element) const noexcept {
  const auto block =
      std::upper_bound(blocks_.begin(), blocks_.end(), element) - blocks_.begin() - 1;
  const uint64_t first = static_cast<uint64_t>(block) << kBlockBits;
  const uint64_t last = std::min<uint64_t>(first + (uint64_t{1} << kBlockBits), within_.size());
  const uint64_t in_block = element - blocks_[static_cast<size_t>(block)];
  const auto at = std::upper_bound(within_.begin() + static_cast<ptrdiff_t>(first),
                                   within_.begin() + static_cast<ptrdiff_t>(last), in_block);
  return static_cast<uint64_t>(at - within_.begin()) - 1;
}

uint64_t RowOffsets::row_of(uint64_t element, uint64_t from) const noexcept {
  // Row `near` begins at or before the element, and row `near + step` will be behind it.
  uint64_t near = from, step = 1;
  while (near + step < row_count() && begin(near + step) <= element) {
    near += step;
    step *= 2;
  }
  while (step > 1) {
    step /= 2;
    if (near + step < row_count() && begin(near + step) <= element) near += step;
  }
  return near;
}

}  // namespace penstock::format
