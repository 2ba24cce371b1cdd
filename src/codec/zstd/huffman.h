#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

// Huffman-coded literals (RFC 8878, section 4.2).

namespace penstock::codec::zstd {

inline constexpr unsigned kMostHuffmanLog = 11;

/// For every value of the next `log` bits: the symbol they begin with and its length.
struct HuffmanTable {
  struct Entry {
    uint8_t bits;
    uint8_t symbol;
  };
  unsigned log = 0;  ///< 0: none yet
  std::array<Entry, size_t{1} << kMostHuffmanLog> entries;
};

/// Reads a tree description. Returns the bytes taken, or 0 when it is bad.
size_t read_huffman_table(std::span<const uint8_t> in, HuffmanTable& table) noexcept;

/// Literals of one stream or of four. 8 bytes or more that can be read precede `in`. Returns false
/// when a stream does not end with its last literal.
bool decode_huffman(std::span<const uint8_t> in, bool four, const HuffmanTable& table,
                    std::span<uint8_t> out) noexcept;

}  // namespace penstock::codec::zstd
