#include "codec/zstd/sequences.h"

namespace penstock::codec::zstd {

bool SequenceReader::open(std::span<const uint8_t> in, const SequenceTables& tables) noexcept {
  tables_ = &tables;
  if (!bits_.open(in.data(), in.size())) return false;
  literals_ = bits_.read(tables.literals.log);
  offset_ = bits_.read(tables.offset.log);
  match_ = bits_.read(tables.match.log);
  return bits_.left >= 0;
}

// All bits of a sequence at the low end of a word; the bits read last are the lowest.
bool SequenceReader::read(Sequence& sequence) noexcept {
  const SequenceState l = tables_->literals.states[literals_];
  const SequenceState o = tables_->offset.states[offset_];
  const SequenceState m = tables_->match.states[match_];
  const unsigned counts = unsigned{l.counts} + o.counts + m.counts;
  const unsigned total = (counts & 0xFF) + (counts >> 8);
  if (total > kWindowBits) return false;
  uint64_t word = bits_.take(total);
  offset_ = o.next + low_bits(word, o.moves());
  word >>= o.moves();
  match_ = m.next + low_bits(word, m.moves());
  word >>= m.moves();
  literals_ = l.next + low_bits(word, l.moves());
  word >>= l.moves();
  sequence.literals = l.base + static_cast<uint32_t>(low_bits(word, l.extra()));
  word >>= l.extra();
  sequence.match = m.base + static_cast<uint32_t>(low_bits(word, m.extra()));
  word >>= m.extra();
  sequence.offset = o.base + static_cast<uint32_t>(low_bits(word, o.extra()));
  return bits_.left >= 0;
}

bool SequenceReader::read_last(Sequence& sequence) noexcept {
  const SequenceState& l = tables_->literals.states[literals_];
  const SequenceState& o = tables_->offset.states[offset_];
  const SequenceState& m = tables_->match.states[match_];
  sequence.offset = o.base + static_cast<uint32_t>(bits_.read(o.extra()));
  sequence.match = m.base + static_cast<uint32_t>(bits_.read(m.extra()));
  sequence.literals = l.base + static_cast<uint32_t>(bits_.read(l.extra()));
  return bits_.left == 0;
}

uint32_t RecentOffsets::take(uint32_t stored, uint32_t literals) noexcept {
  // Without literals, 1 … 3 mean the second, the third, and the first minus one.
  const uint32_t place = stored + (literals == 0 ? 1U : 0U);
  uint32_t offset = stored - 3;
  if (stored <= 3) {
    if (stored == 0) return 0;
    if (place == 1) return first_;
    offset = place == 2 ? second_ : place == 3 ? third_ : first_ - 1;
    if (place == 2) {
      second_ = first_;
      first_ = offset;
      return offset;
    }
  }
  third_ = second_;
  second_ = first_;
  first_ = offset;
  return offset;
}

}  // namespace penstock::codec::zstd
