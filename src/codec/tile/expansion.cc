#include "codec/tile/expansion.h"

#include <limits>

namespace penstock::codec {
namespace {

constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();

uint64_t times(uint64_t stored, uint64_t factor) noexcept {
  uint64_t product;
  return __builtin_mul_overflow(stored, factor, &product) ? kNoBound : product;
}

}  // namespace

uint64_t most_decoded_bytes(FilterType type, uint64_t stored) noexcept {
  switch (type) {
    case FilterType::kGzip:  // zlib's technical details: 1032 to 1
      return times(stored, 1032);
    case FilterType::kZstd:  // RFC 8878: a block of 128 KiB in a header of 3 bytes and 1 byte
      return times(stored, 32768);
    case FilterType::kLz4:  // lz4_Block_format.md: a length grows by 255 with each byte
      return times(stored, 255);
    case FilterType::kBzip2:  // runs of up to 259 in 5 bytes, blocks of 900,000 of those in 32
                              // bytes
      return times(stored, uint64_t{1} << 21);
    case FilterType::kRle:  // a run of 65,535 cells in the cell and 2 bytes
      return times(stored, 65535);
    case FilterType::kDoubleDelta:  // a value of 8 bytes in a bit
      return times(stored, 64);
    case FilterType::kBitWidthReduction:  // a value of 8 bytes in one
      return times(stored, 8);
    case FilterType::kScaleFloat:  // a double from an integer of a byte
      return times(stored, 8);
    case FilterType::kDictionary:
    case FilterType::kAes256Gcm:  // refused with a reason when run
    case FilterType::kWebp:
      return kNoBound;
    default:
      return stored;
  }
}

uint64_t most_decoded_bytes(std::span<const FilterConfig> filters, uint64_t stored) noexcept {
  uint64_t bytes = stored;
  for (size_t index = filters.size(); index-- > 0;) {
    bytes = most_decoded_bytes(filters[index].type, bytes);
  }
  return bytes;
}

}  // namespace penstock::codec
