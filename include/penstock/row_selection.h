#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace penstock {

/// A set of row identities (SOMA joinids, int64 >= 0), ordered ascending; immutable and cheap to
/// copy.
///
/// Kept as a compressed bitmap, never as a list: a range of 10^8 rows costs 60 kB, a random half of
/// them 2 bits a row. The position of a row is its rank in the ascending order.
class RowSelection {
 public:
  RowSelection();  ///< empty

  /// Rows begin, …, end - 1. Throws InvalidArgument when begin is negative or end < begin.
  static RowSelection range(int64_t begin, int64_t end);
  /// Strictly ascending ids, else InvalidArgument.
  static RowSelection from_sorted(std::span<const int64_t> joinids);
  /// Ids in any order; duplicates are InvalidArgument.
  static RowSelection from_unsorted(std::span<const int64_t> joinids);

  uint64_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  bool contains(int64_t joinid) const;
  /// Whether any row of [begin, end) is selected; several times as fast as two ranks.
  bool intersects(int64_t begin, int64_t end) const;
  uint64_t rank(int64_t joinid) const;  ///< selected ids smaller than `joinid`
  int64_t at(uint64_t position) const;  ///< throws InvalidArgument at or past size()

  /// Appends the selected ids in [begin, end), ascending.
  void copy_range(int64_t begin, int64_t end, std::vector<int64_t>& out) const;
  /// Appends the ids at positions [first, first + count).
  void copy_positions(uint64_t first, uint64_t count, std::vector<int64_t>& out) const;
  std::vector<int64_t> to_vector() const;

  /// Sets of positions (ascending, unique) of this selection -> the selection of those rows.
  RowSelection take(std::span<const uint64_t> positions) const;

  RowSelection operator&(const RowSelection& other) const;
  RowSelection operator|(const RowSelection& other) const;
  RowSelection operator-(const RowSelection& other) const;
  bool operator==(const RowSelection& other) const;

  /// The rows moved by a multiple of 2^32, which copies no bitmap. Throws InvalidArgument for
  /// another offset, and where a row would leave [0, 2^63).
  RowSelection shifted(int64_t offset) const;

  /// Bytes for pickles and checkpoints: CRoaring's portable 32-bit bitmaps in a frame of our own.
  /// The same for equal sets made alike, not for all equal sets (`fingerprint` is).
  /// deserialize accepts hostile bytes; what serialize could not have written is CorruptData.
  std::string serialize() const;
  static RowSelection deserialize(std::span<const std::byte> bytes);

  size_t memory_bytes() const;
  /// A 64-bit hash of the set, the same on every machine; part of a plan's fingerprint.
  uint64_t fingerprint() const;

 private:
  friend class RowSelectionBuilder;
  struct Bitmap;
  explicit RowSelection(std::shared_ptr<const Bitmap> bitmap);
  std::shared_ptr<const Bitmap> bitmap_;
};

}  // namespace penstock
