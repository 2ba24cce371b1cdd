#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Reads Zstandard's reversed bit streams (RFC 8878, sections 4.1 and 4.2). They start at the
// highest set bit of their last byte and run towards lower addresses. Only the counts of FSE tables
// are forward streams (fse.cc).

namespace penstock::codec::zstd {

inline uint64_t load64(const uint8_t* from) noexcept {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

/// The `count` lowest bits; count may be 0 … 63.
inline uint64_t low_bits(uint64_t word, unsigned count) noexcept {
  return word & ((uint64_t{1} << count) - 1);
}

/// Least number of bits in a window of 8 bytes, wherever in a byte it begins.
inline constexpr unsigned kWindowBits = 57;

/// A reversed stream, by the number of bits that are left.
///
/// A window may reach up to 8 bytes before the stream's first byte. The caller guarantees that
/// these can be read (in a frame, headers precede every stream).
struct ReverseBits {
  const uint8_t* begin = nullptr;
  int64_t left = 0;  ///< negative: more were read than there are

  /// False if the stream is empty or has no end mark.
  bool open(const uint8_t* first, size_t size) noexcept {
    if (size == 0 || first[size - 1] == 0) return false;
    begin = first;
    left = static_cast<int64_t>(size) * 8 - std::countl_zero(first[size - 1]) - 1;
    return true;
  }

  /// The next `count` bits, at most 57, at the low end of a word; the first bit is the highest.
  /// Above them are bits read before (none if count is 57).
  uint64_t take(unsigned count) noexcept {
    const uint64_t window = load64(begin + ((left + 7) >> 3) - 8);
    const unsigned above = static_cast<unsigned>(-left) & 7;
    left -= count;
    return window >> ((64 - count - above) & 63);
  }

  /// As take(), but checked and with zeros above. Past the end returns 0 and makes `left` negative.
  uint64_t read(unsigned count) noexcept {
    if (left < static_cast<int64_t>(count)) {
      left = -1;
      return 0;
    }
    return low_bits(take(count), count);
  }
};

}  // namespace penstock::codec::zstd
