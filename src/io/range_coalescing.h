#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

// Merges byte ranges that lie near one another in one object into fewer, longer reads.
//
// A reader collects the ranges that it wants (in any order; they may touch, overlap or be equal),
// gets back the reads to issue in ascending order, and for each wanted range the read that holds it
// and where. What the merging costs is returned with it: `read_bytes - wanted_bytes` are read and
// thrown away. Pure functions, no I/O; cost is one sort of the ranges.

namespace penstock::io {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t end() const noexcept { return offset + length; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct CoalescingOptions {
  /// Two ranges at most this far apart are read together; the gap is waste. On a local disk a gap
  /// costs its copy (64 KiB: about 10 us); over a network a request costs more than a megabyte of
  /// gap.
  uint64_t max_gap_bytes = 16 * 1024;
  /// A read grows no further than this, unless one wanted range alone is longer. Bounds the memory
  /// of a read and lets several threads share a long run.
  uint64_t max_read_bytes = 8 * 1024 * 1024;
  /// Gaps longer than `always_gap_bytes` are read over only while all that is thrown away stays
  /// below this share of what is wanted; the smallest gaps first.
  double max_waste_share = std::numeric_limits<double>::infinity();
  uint64_t always_gap_bytes = 4 * 1024;
};

struct CoalescedPiece {
  size_t read = 0;      ///< index into CoalescedReads::reads
  uint64_t offset = 0;  ///< where the wanted range begins within that read
};

struct CoalescedReads {
  std::vector<ByteRange> reads;        ///< ascending by offset
  std::vector<CoalescedPiece> pieces;  ///< one for each wanted range, in the order they were given
  uint64_t wanted_bytes = 0;           ///< distinct wanted bytes
  uint64_t read_bytes = 0;             ///< sum of the reads' lengths
};

/// Ranges whose end overflows are `CorruptData`. Empty ranges are placed without causing a read of
/// their own (they point at read 0, offset 0 when nothing is read at all).
CoalescedReads coalesce(std::span<const ByteRange> wanted, const CoalescingOptions& options = {});

}  // namespace penstock::io
