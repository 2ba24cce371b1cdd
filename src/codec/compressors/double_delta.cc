#include "codec/compressors/double_delta.h"

#include <algorithm>
#include <cstring>

#include "codec/compressors/compression.h"
#include "codec/compressors/delta.h"

namespace penstock::codec {
namespace {

/// Bits of 64-bit words, highest first. The caller has checked that there are enough.
class BitReader {
 public:
  explicit BitReader(const std::byte* words) : next_(words) {}

  /// `count` is 1 to 63.
  uint64_t read(unsigned count) noexcept {
    if (count <= left_) {
      left_ -= count;
      return (word_ >> left_) & mask(count);
    }
    const unsigned more = count - left_;
    const uint64_t high = word_ & mask(left_);
    std::memcpy(&word_, next_, sizeof(word_));
    next_ += sizeof(word_);
    left_ = 64 - more;
    return high << more | word_ >> left_;
  }

 private:
  static uint64_t mask(unsigned count) noexcept { return (uint64_t{1} << count) - 1; }

  const std::byte* next_;
  uint64_t word_ = 0;
  unsigned left_ = 0;
};

template <typename T>
void sum_double_deltas(const std::byte* words, unsigned bits, std::byte* out,
                       size_t count) noexcept {
  T before;
  T last;
  std::memcpy(&before, out, sizeof(T));
  std::memcpy(&last, out + sizeof(T), sizeof(T));
  BitReader reader(words);
  for (size_t i = 2; i < count; ++i) {
    const bool negative = reader.read(1) != 0;
    const uint64_t magnitude = bits == 0 ? 0 : reader.read(bits);
    const uint64_t difference = negative ? -magnitude : magnitude;
    const T value = static_cast<T>(difference + 2 * uint64_t{last} - uint64_t{before});
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
    before = last;
    last = value;
  }
}

void decode_part(const FilterStep& step, std::span<const std::byte> in, std::span<std::byte> out) {
  if (out.empty()) return;
  const size_t width = delta_element_bytes(step);
  ByteReader reader(in);
  const unsigned bits = reader.read<uint8_t>("bits of double deltas");
  const auto count = reader.read<uint64_t>("number of values");
  const auto fail = [&] {
    throw_bad_part(step.config.type,
                   std::to_string(count) + " values of " + std::to_string(width) + " bytes in " +
                       std::to_string(bits) + " bits each",
                   in.size(), out.size());
  };
  if (count != out.size() / width) fail();
  // If differences are as wide as values, values are stored unchanged. So are bytes after the last
  // whole value, because an earlier compressor's output may have any number of bytes.
  if (bits >= width * 8 - 1) {
    if (reader.remaining() != out.size()) fail();
    std::ranges::copy(reader.take(out.size(), "values"), out.begin());
    return;
  }
  if (out.size() % width != 0) fail();
  const auto first = reader.take(std::min<uint64_t>(count, 2) * width, "first values");
  std::ranges::copy(first, out.begin());
  const uint64_t packed_bits = count <= 2 ? 0 : (count - 2) * (bits + 1);
  if (reader.remaining() != (packed_bits + 63) / 64 * 8) fail();
  if (packed_bits == 0) return;
  const std::byte* words = reader.take(reader.remaining(), "double deltas").data();
  switch (width) {
    case 1:
      return sum_double_deltas<uint8_t>(words, bits, out.data(), count);
    case 2:
      return sum_double_deltas<uint16_t>(words, bits, out.data(), count);
    case 4:
      return sum_double_deltas<uint32_t>(words, bits, out.data(), count);
    default:
      return sum_double_deltas<uint64_t>(words, bits, out.data(), count);
  }
}

}  // namespace

void decode_double_delta(FilterStep& step) { decode_compressed(step, decode_part); }

}  // namespace penstock::codec
