#pragma once

#include <roaring/roaring.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

// The rows of a RowSelection that share the upper 32 bits of their ids: a 32-bit CRoaring bitmap
// with an index of its 2^16-row blocks. With the index, rank and select cost a binary search
// instead of a walk over all containers. Never empty; immutable, shared by threads and selections.

namespace penstock {

struct RoaringDeleter {
  void operator()(roaring_bitmap_t* bitmap) const noexcept { roaring_bitmap_free(bitmap); }
};
/// Throws bad_alloc for null, which CRoaring returns after a failed allocation.
using RoaringPtr = std::unique_ptr<roaring_bitmap_t, RoaringDeleter>;
RoaringPtr own_roaring(roaring_bitmap_t* bitmap);

class RoaringWord {
 public:
  static constexpr uint64_t kRows = uint64_t{1} << 32;

  explicit RoaringWord(RoaringPtr bitmap);

  const roaring_bitmap_t* bitmap() const noexcept { return bitmap_.get(); }
  uint64_t size() const noexcept { return size_; }

  uint64_t rank(uint32_t low) const;                     ///< rows smaller than `low`
  uint32_t select(uint64_t position) const;              ///< position < size()
  bool intersects(uint32_t first, uint32_t last) const;  ///< `last` inclusive

  /// Appends the `count` rows from `low` on, each with `base` added.
  void copy(uint32_t low, uint64_t count, int64_t base, std::vector<int64_t>& out) const;

  /// Adds the rows at these ascending positions to `rows`, each minus `position_base` first.
  void take(std::span<const uint64_t> positions, uint64_t position_base,
            std::vector<uint32_t>& rows) const;

  uint64_t hash(uint64_t seed) const;  ///< of the set, independent of its containers
  size_t memory_bytes() const;

 private:
  struct Block {
    uint64_t first_position;
    uint32_t first_row;  ///< key << 16
  };
  size_t block_at_position(uint64_t position) const;
  uint64_t block_size(size_t index) const;
  void read_block(size_t index, std::vector<uint32_t>& rows) const;

  RoaringPtr bitmap_;
  uint64_t size_ = 0;
  std::vector<Block> blocks_;
};

using RoaringWordPtr = std::shared_ptr<const RoaringWord>;

}  // namespace penstock
