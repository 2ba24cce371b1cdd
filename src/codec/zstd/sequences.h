#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/zstd/bits.h"

// Sequences (RFC 8878, sections 3.1.1.3.2 and 3.1.1.4): copies from the literals and from decoded
// bytes.

namespace penstock::codec::zstd {

/// As stored: an offset of 1 … 3 means one of the last three offsets, 4 and more mean offset - 3.
struct Sequence {
  uint32_t literals;
  uint32_t match;
  uint32_t offset;
};

/// A state of one of the three tables. Its value is `base` plus the number in `extra` bits; the
/// following state is `next` plus the number in `moves` bits. Both counts share one number, so that
/// one addition adds those of three states.
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

/// The tables that a block may reuse from the block before.
struct SequenceTables {
  SequenceTable literals;
  SequenceTable offset;
  SequenceTable match;

  void forget() noexcept { literals.known = offset.known = match.known = false; }
};

/// Reads the head of a sequence section: the count and the tables. On success `in` is the rest, the
/// bit stream (empty without sequences).
bool read_sequence_head(std::span<const uint8_t>& in, SequenceTables& tables,
                        size_t& count) noexcept;

/// Reads the sequences of a bit stream one by one.
class SequenceReader {
 public:
  /// At least 8 readable bytes must precede `in`. False if it is not a stream of sequences.
  bool open(std::span<const uint8_t> in, const SequenceTables& tables) noexcept;

  /// False at the end of the stream, or if a sequence has more bits than any block can need.
  bool read(Sequence& sequence) noexcept;

  /// Reads the last sequence, which moves no states. False if the stream does not end with it.
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
  /// The offset that a stored one means, which becomes the most recent; 0 if invalid.
  uint32_t take(uint32_t stored, uint32_t literals) noexcept;

 private:
  uint32_t first_ = 1;
  uint32_t second_ = 4;
  uint32_t third_ = 8;
};

}  // namespace penstock::codec::zstd
