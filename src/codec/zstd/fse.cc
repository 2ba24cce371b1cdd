#include "codec/zstd/fse.h"

#include <bit>
#include <cstring>

#include "codec/zstd/bits.h"

namespace penstock::codec::zstd {
namespace {

/// A forward stream, least significant bit first. Bits past the end are zeros; then `over()` is
/// true.
class ForwardBits {
 public:
  explicit ForwardBits(std::span<const uint8_t> in) : in_(in) {}

  uint32_t peek(unsigned count) const noexcept {
    uint64_t word = 0;
    const size_t byte = at_ / 8;
    if (byte + 8 <= in_.size()) {
      word = load64(in_.data() + byte);
    } else {
      for (size_t i = byte; i < in_.size(); ++i) word |= uint64_t{in_[i]} << (8 * (i - byte));
    }
    return static_cast<uint32_t>((word >> (at_ % 8)) & ((uint64_t{1} << count) - 1));
  }
  void skip(unsigned count) noexcept { at_ += count; }
  bool over() const noexcept { return at_ > in_.size() * 8; }
  size_t bytes() const noexcept { return (at_ + 7) / 8; }

 private:
  std::span<const uint8_t> in_;
  size_t at_ = 0;
};

}  // namespace

size_t read_fse_counts(std::span<const uint8_t> in, unsigned most_log, size_t most_symbols,
                       FseCounts& counts) noexcept {
  ForwardBits bits(in);
  counts.log = bits.peek(4) + 5;
  bits.skip(4);
  if (counts.log > most_log) return 0;
  int32_t left = int32_t{1} << counts.log;
  size_t symbol = 0;
  while (left > 0) {
    if (symbol >= most_symbols || bits.over()) return 0;
    // A value below 2^width - 2 - left has one bit less than the others.
    const auto width = static_cast<unsigned>(std::bit_width(static_cast<uint32_t>(left + 1)));
    const uint32_t low_mask = (uint32_t{1} << (width - 1)) - 1;
    const uint32_t short_values = (uint32_t{1} << width) - 2 - static_cast<uint32_t>(left);
    uint32_t value = bits.peek(width);
    if ((value & low_mask) < short_values) {
      value &= low_mask;
      bits.skip(width - 1);
    } else {
      if (value > low_mask) value -= short_values;
      bits.skip(width);
    }
    const int32_t count = static_cast<int32_t>(value) - 1;
    left -= count < 0 ? -count : count;
    counts.counts[symbol++] = static_cast<int16_t>(count);
    if (count != 0) continue;
    for (uint32_t more = 3; more == 3;) {  // zeros that follow; 3: another number follows
      more = bits.peek(2);
      bits.skip(2);
      if (bits.over() || symbol + more > most_symbols) return 0;
      for (uint32_t i = 0; i < more; ++i) counts.counts[symbol++] = 0;
    }
  }
  if (left < 0 || bits.over()) return 0;
  counts.symbols = symbol;
  return bits.bytes();
}

void place_fse_symbols(const FseCounts& counts, std::span<uint8_t> symbols) noexcept {
  const auto size = static_cast<uint32_t>(symbols.size());
  uint32_t high = size;  // symbols that are less than one have one state each, from the end
  for (size_t symbol = 0; symbol < counts.symbols; ++symbol) {
    if (counts.counts[symbol] < 0) symbols[--high] = static_cast<uint8_t>(symbol);
  }
  const uint32_t step = (size >> 1) + (size >> 3) + 3;
  const uint32_t mask = size - 1;
  uint32_t place = 0;
  if (high == size) {
    // The symbols in their order, then each to its place: no branch that depends on the counts.
    std::array<uint8_t, (size_t{1} << kMostFseLog) + 8> in_order;
    size_t at = 0;
    for (size_t symbol = 0; symbol < counts.symbols; ++symbol) {
      const uint64_t eight = 0x0101010101010101U * symbol;
      const auto count = static_cast<size_t>(counts.counts[symbol]);
      for (size_t i = 0; i < count; i += 8) std::memcpy(&in_order[at + i], &eight, 8);
      at += count;
    }
    for (uint32_t i = 0; i < size; ++i) {
      symbols[place] = in_order[i];
      place = (place + step) & mask;
    }
    return;
  }
  for (size_t symbol = 0; symbol < counts.symbols; ++symbol) {
    for (int i = 0; i < counts.counts[symbol]; ++i) {
      symbols[place] = static_cast<uint8_t>(symbol);
      do place = (place + step) & mask;
      while (place >= high);
    }
  }
}

}  // namespace penstock::codec::zstd
