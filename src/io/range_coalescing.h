#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

// Merges byte ranges that lie near one another in one object into fewer, longer reads.
//
// A reader passes the ranges that it wants, in any order; they may touch, overlap or be equal. It
// gets the reads to issue, in ascending order, and the place of each wanted range in them. The
// waste is `read_bytes - wanted_bytes`. Pure functions, no I/O; cost is one sort of the ranges.

namespace penstock::io {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t end() const noexcept { return offset + length; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct CoalescingOptions {
  /// Two ranges at most this far apart are read together; the gap is waste. On a local disk the
  /// cost of a gap is its copy (64 KiB: about 10 us). Over a network a request costs more than a
  /// gap of a megabyte.
  uint64_t max_gap_bytes = 16 * 1024;
  /// Longest read, unless one wanted range is longer. Bounds the memory of a read and lets several
  /// threads share a long run.
  uint64_t max_read_bytes = 8 * 1024 * 1024;
  /// Gaps longer than `always_gap_bytes` are merged, smallest first, while the total waste stays
  /// below this share of the wanted bytes.
  double max_waste_share = std::numeric_limits<double>::infinity();
  uint64_t always_gap_bytes = 4 * 1024;
};

struct CoalescedPiece {
  size_t read = 0;      ///< index into CoalescedReads::reads
  uint64_t offset = 0;  ///< where the wanted range begins within that read
};

struct CoalescedReads {
  std::vector<ByteRange> reads;        ///< ascending by offset
  std::vector<CoalescedPiece> pieces;  ///< one for each wanted range, in the given order
  uint64_t wanted_bytes = 0;           ///< distinct wanted bytes
  uint64_t read_bytes = 0;             ///< sum of the reads' lengths
};

/// Throws `CorruptData` for ranges whose end overflows. An empty range causes no read of its own;
/// without any reads it points at read 0, offset 0.
CoalescedReads coalesce(std::span<const ByteRange> wanted, const CoalescingOptions& options = {});

}  // namespace penstock::io
