#include "codec/zstd/bits.h"
#include "codec/zstd/huffman.h"

namespace penstock::codec::zstd {
namespace {

bool decode_stream(std::span<const uint8_t> in, const HuffmanTable& table,
                   std::span<uint8_t> out) noexcept {
  ReverseBits bits;
  if (!bits.open(in.data(), in.size())) return false;
  for (uint8_t& literal : out) {
    if (bits.left <= 0) return false;
    // The stream may have fewer bits than an index: bits before it are read and ignored.
    const auto entry = table.entries[low_bits(bits.take(table.log), table.log)];
    literal = entry.symbol;
    bits.left += int64_t{table.log} - entry.bits;
  }
  return bits.left == 0;
}

}  // namespace

bool decode_huffman(std::span<const uint8_t> in, bool four, const HuffmanTable& table,
                    std::span<uint8_t> out) noexcept {
  if (!four) return decode_stream(in, table, out);
  constexpr size_t kSizes = 6;      // bytes of the first three streams' sizes, before the streams
  constexpr size_t kLeastFour = 6;  // literals; libzstd refuses four streams of fewer
  if (in.size() < kSizes || out.size() < kLeastFour) return false;
  const size_t each = (out.size() + 3) / 4;
  if (3 * each > out.size()) return false;
  size_t at = kSizes;
  for (size_t i = 0; i < 4; ++i) {
    const size_t size = i == 3 ? in.size() - at : in[2 * i] | size_t{in[2 * i + 1]} << 8;
    if (size > in.size() - at) return false;
    const auto to = i == 3 ? out.subspan(3 * each) : out.subspan(i * each, each);
    if (!decode_stream(in.subspan(at, size), table, to)) return false;
    at += size;
  }
  return true;
}

}  // namespace penstock::codec::zstd
