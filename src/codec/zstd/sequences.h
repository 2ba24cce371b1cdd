#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/zstd/bits.h"

// Sequences (RFC 8878, sections 3.1.1.3.2 and 3.1.1.4): what to copy from the literals and from
// what was already decoded.

namespace penstock::codec::zstd {

/// As stored: an offset of 1 … 3 stands for one of the last three, 4 and more for itself less 3.
struct Sequence {
  uint32_t literals;
  uint32_t match;
  uint32_t offset;
};

/// A state of one of the three tables: the value that it stands for is `base` plus `extra` bits,
/// and the state after it is `next` plus `moves` bits. Both counts in one number, so that those of
/// three states are added at once.
struct SequenceState {
  uint32_t base;
  uint16_t counts;  ///< extra | moves << 8
  uint16_t next;

  unsigned extra() const noexcept { return counts & 0xFFU; }
  unsigned moves() const noexcept { return counts >> 8; }
};

struct SequenceTable {
  static constexpr size_t kMostStates = 512;
  unsigned log = 0;
  bool known = false;  ///< may be repeated by the next block
  std::array<SequenceState, kMostStates> states;
};

/// The tables that a frame's blocks hand on.
struct SequenceTables {
  SequenceTable literals;
  SequenceTable offset;
  SequenceTable match;

  void forget() noexcept { literals.known = offset.known = match.known = false; }
};

/// The head of a sequence section: how many, and the tables. On success `in` is what is left, the
/// bit stream (nothing where there are no sequences).
bool read_sequence_head(std::span<const uint8_t>& in, SequenceTables& tables,
                        size_t& count) noexcept;

/// Reads a bit stream of sequences, one after the other.
class SequenceReader {
 public:
  /// 8 bytes or more that can be read precede `in`. False when it is no such stream.
  bool open(std::span<const uint8_t> in, const SequenceTables& tables) noexcept;

  /// False when the stream is over, or has more bits for a sequence than any block can need.
  bool read(Sequence& sequence) noexcept;

  /// The last one, which moves no states. False when it does not end the stream.
  bool read_last(Sequence& sequence) noexcept;

 private:
  ReverseBits bits_;
  uint64_t literals_ = 0;
  uint64_t offset_ = 0;
  uint64_t match_ = 0;
  const SequenceTables* tables_ = nullptr;
};

/// The last three offsets (section 3.1.1.5).
class RecentOffsets {
 public:
  /// The offset that a stored one stands for, now the most recent; 0 when there is none such.
  uint32_t take(uint32_t stored, uint32_t literals) noexcept;

 private:
  uint32_t first_ = 1;
  uint32_t second_ = 4;
  uint32_t third_ = 8;
};

}  // namespace penstock::codec::zstd
