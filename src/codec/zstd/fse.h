#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

// FSE, Zstandard's table-driven arithmetic coder (RFC 8878, section 4.1): counts from their
// compressed form, and the order in which states belong to symbols.

namespace penstock::codec::zstd {

inline constexpr unsigned kMostFseLog = 9;
inline constexpr size_t kMostFseSymbols = 53;

struct FseCounts {
  std::array<int16_t, kMostFseSymbols> counts;  ///< of each symbol; -1 for "less than one"
  size_t symbols = 0;
  unsigned log = 0;
};

/// Reads counts of at most `most_symbols` symbols for a table of at most 2^`most_log` states.
/// Returns the number of bytes read, or 0 if they are bad.
size_t read_fse_counts(std::span<const uint8_t> in, unsigned most_log, size_t most_symbols,
                       FseCounts& counts) noexcept;

/// The symbol of each of the 2^log states.
void place_fse_symbols(const FseCounts& counts, std::span<uint8_t> symbols) noexcept;

/// Calls `make(state, symbol, bits, next)` for each state. The following state is `next` plus the
/// number in the following `bits` bits.
template <typename Make>
void for_each_fse_state(const FseCounts& counts, Make&& make) noexcept {
  std::array<uint8_t, (size_t{1} << kMostFseLog)> symbols;
  const uint32_t size = uint32_t{1} << counts.log;
  place_fse_symbols(counts, std::span(symbols).first(size));
  std::array<uint16_t, kMostFseSymbols> next;
  for (size_t symbol = 0; symbol < counts.symbols; ++symbol) {
    next[symbol] = static_cast<uint16_t>(counts.counts[symbol] < 0 ? 1 : counts.counts[symbol]);
  }
  for (uint32_t state = 0; state < size; ++state) {
    const uint32_t x = next[symbols[state]]++;
    const unsigned bits = counts.log + 1 - static_cast<unsigned>(std::bit_width(x));
    make(state, symbols[state], static_cast<uint8_t>(bits),
         static_cast<uint16_t>((x << bits) - size));
  }
}

}  // namespace penstock::codec::zstd
