#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// Huffman-coded literals (RFC 8878, section 4.2).

namespace penstock::codec::zstd {

inline constexpr unsigned kMostHuffmanLog = 11;

/// For each value of the next `log` bits: the symbol that they begin with and its length.
struct HuffmanTable {
  struct Entry {
    uint8_t bits;
    uint8_t symbol;
  };
  unsigned log = 0;  ///< 0: none yet
  std::array<Entry, size_t{1} << kMostHuffmanLog> entries;
};

/// Reads a tree description. Returns the number of bytes read, or 0 if it is bad.
size_t read_huffman_table(std::span<const uint8_t> in, HuffmanTable& table) noexcept;

/// Decodes literals of one stream or of four. At least 8 readable bytes must precede `in`. False
/// unless each stream ends with its last literal.
bool decode_huffman(std::span<const uint8_t> in, bool four, const HuffmanTable& table,
                    std::span<uint8_t> out) noexcept;

}  // namespace penstock::codec::zstd
