#pragma once

#include <penstock/error.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "format/row_file/bit_packing.h"

// A block of a row record: up to 128 numbers at one width, and exceptions to it.
//
//   u16   width (bits 0-4), width of the high bits (5-9), number of exceptions (10-15)
//   bits  for each exception its place (7 bits), ascending, and its bits above `width`; 0, which no
//         exception has there, marks an escape
//   bits  the numbers, their lowest `width` bits

namespace penstock::format::pack {

inline constexpr uint32_t kBlockNumbers = 128;
inline constexpr uint32_t kMaxExceptions = 63;
inline constexpr unsigned kPlaceBits = 7;

/// A parsed block: pointers into the stored bytes. Everything is checked except the places.
struct NumberBlock {
  unsigned width = 0;
  unsigned high_width = 0;
  uint32_t exceptions = 0;
  const std::byte* patches = nullptr;
  const std::byte* numbers = nullptr;

  static NumberBlock read(ByteReader& reader, uint32_t count) {
    const auto head = reader.read<uint16_t>("head of a block");
    NumberBlock block;
    block.width = head & 31U;
    block.high_width = (head >> 5) & 31U;
    block.exceptions = head >> 10;
    if (block.width + block.high_width > kMaxBitWidth || block.exceptions > count) {
      throw CorruptData(concat("a block of ", count, " numbers of ", block.width, " + ",
                               block.high_width, " bits with ", block.exceptions, " exceptions"));
    }
    block.patches =
        reader.take(packed_bytes(block.exceptions, kPlaceBits + block.high_width), "exceptions")
            .data();
    block.numbers = reader.take(packed_bytes(count, block.width), "numbers of a block").data();
    return block;
  }

  /// Calls body(place, high bits) for each exception. Throws CorruptData for places that are out of
  /// range or do not ascend.
  template <typename Body>
  void for_each_exception(uint32_t count, Body&& body) const {
    constexpr uint64_t kPlaceMask = (uint64_t{1} << kPlaceBits) - 1;
    const unsigned patch_width = kPlaceBits + high_width;
    const uint64_t mask = (uint64_t{1} << patch_width) - 1;
    uint32_t least = 0;
    for (uint32_t k = 0; k < exceptions; ++k) {
      const size_t bit = size_t{k} * patch_width;
      uint64_t bits;
      std::memcpy(&bits, patches + bit / 8, sizeof(bits));
      bits = (bits >> (bit % 8)) & mask;
      const auto place = static_cast<uint32_t>(bits & kPlaceMask);
      if (place < least || place >= count) {
        throw CorruptData(concat("exception at place ", place, " of a block of ", count));
      }
      least = place + 1;
      body(place, static_cast<uint32_t>(bits >> kPlaceBits));
    }
  }
};

}  // namespace penstock::format::pack
