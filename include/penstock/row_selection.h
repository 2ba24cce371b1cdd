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
/// Stored as a compressed bitmap: a range of 10^8 rows takes 60 kB, a random half of them 2 bits a
/// row. The position of a row is its rank in ascending order.
class RowSelection {
 public:
  RowSelection();  ///< empty

  /// Rows begin, …, end - 1. Throws InvalidArgument if begin is negative or end < begin.
  static RowSelection range(int64_t begin, int64_t end);
  /// Throws InvalidArgument unless ids ascend strictly.
  static RowSelection from_sorted(std::span<const int64_t> joinids);
  /// Takes ids in any order. Throws InvalidArgument for duplicates.
  static RowSelection from_unsorted(std::span<const int64_t> joinids);

  uint64_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  bool contains(int64_t joinid) const;
  /// Whether any row of [begin, end) is selected; several times as fast as two calls of rank.
  bool intersects(int64_t begin, int64_t end) const;
  uint64_t rank(int64_t joinid) const;  ///< number of selected ids smaller than `joinid`
  int64_t at(uint64_t position) const;  ///< throws InvalidArgument at or past size()

  /// Appends the selected ids in [begin, end), ascending.
  void copy_range(int64_t begin, int64_t end, std::vector<int64_t>& out) const;
  /// Appends the ids at positions [first, first + count).
  void copy_positions(uint64_t first, uint64_t count, std::vector<int64_t>& out) const;
  std::vector<int64_t> to_vector() const;

  /// The selection of the rows at these positions, which must be ascending and unique.
  RowSelection take(std::span<const uint64_t> positions) const;

  RowSelection operator&(const RowSelection& other) const;
  RowSelection operator|(const RowSelection& other) const;
  RowSelection operator-(const RowSelection& other) const;
  bool operator==(const RowSelection& other) const;

  /// The rows shifted by a multiple of 2^32, without copying bitmaps. Throws InvalidArgument for
  /// any other offset, or if a row would leave [0, 2^63).
  RowSelection shifted(int64_t offset) const;

  /// Bytes for pickles and checkpoints: CRoaring's portable 32-bit bitmaps in our own frame. Equal
  /// sets may have different bytes if they were made in different ways; `fingerprint` is the same.
  /// deserialize is safe for hostile bytes. It throws CorruptData for bytes that serialize cannot
  /// write.
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
