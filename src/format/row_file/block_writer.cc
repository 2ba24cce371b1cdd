#include "format/row_file/block_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "format/row_file/bit_packing.h"

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

namespace penstock::format::pack {
namespace {

/// Largest block: head, exceptions and numbers, plus the bytes that 8-byte stores write past them.
constexpr size_t kMostBlockBytes = sizeof(uint16_t) +
                                   packed_bytes(kMaxExceptions, kPlaceBits + kMaxBitWidth) +
                                   packed_bytes(kBlockNumbers, kMaxBitWidth) + kPackSlack;

#if PENSTOCK_X86_PATHS

// Every processor with AVX2 counts bits by one instruction, which has to be asked for.
#define PENSTOCK_TARGET_COUNT __attribute__((target("avx2,popcnt")))

PENSTOCK_TARGET_AVX2 inline uint32_t not_below(__m256i bytes, __m256i least) noexcept {
  const __m256i reached = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, least), bytes);
  return static_cast<uint32_t>(_mm256_movemask_epi8(reached));
}

PENSTOCK_TARGET_AVX2 BlockMask longer_avx2(const uint8_t* numbers, unsigned width) noexcept {
  const __m256i least = _mm256_set1_epi8(static_cast<char>(1U << width));
  const auto* const from = reinterpret_cast<const __m256i*>(numbers);
  const auto mask = [&](int i) __attribute__((always_inline, target("avx2")))->uint64_t {
    return not_below(_mm256_loadu_si256(from + i), least);
  };
  return {mask(0) | mask(1) << 32, mask(2) | mask(3) << 32};
}

PENSTOCK_TARGET_AVX2 BlockMask longer_avx2(const uint16_t* numbers, unsigned width) noexcept {
  const __m256i least = _mm256_set1_epi16(static_cast<int16_t>(1U << width));
  const auto* const from = reinterpret_cast<const __m256i*>(numbers);
  const auto reached = [&](int i) __attribute__((always_inline, target("avx2"))) {
    const __m256i values = _mm256_loadu_si256(from + i);
    return _mm256_cmpeq_epi16(_mm256_max_epu16(values, least), values);
  };
  const auto mask = [&](int i) __attribute__((always_inline, target("avx2")))->uint64_t {
    // Narrowing interleaves the halves of both.
    const __m256i both = _mm256_packs_epi16(reached(i), reached(i + 1));
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(both, 0xD8)));
  };
  return {mask(0) | mask(2) << 32, mask(4) | mask(6) << 32};
}

#endif

/// Places of numbers that need more than `width` bits; `width` is less than that of T.
template <typename T>
BlockMask longer_than(const T* numbers, unsigned width, VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  if constexpr (sizeof(T) <= 2) {
    if (path == VectorPath::kAvx2) return longer_avx2(numbers, width);
  }
#endif
  static_cast<void>(path);
  BlockMask longer;
  for (size_t i = 0; i < 64; ++i) {
    longer.low |= uint64_t{numbers[i] >> width != 0} << i;
    longer.high |= uint64_t{numbers[i + 64] >> width != 0} << i;
  }
  return longer;
}

/// Appends numbers of a few bits each to bytes.
class BitAppender {
 public:
  explicit BitAppender(std::byte* out) noexcept : out_(out) {}

  /// Up to 38 bits; eight bytes are written behind the last.
  void append(uint64_t number, unsigned width) noexcept {
    bits_ |= number << held_;
    held_ += width;
    std::memcpy(out_, &bits_, sizeof(bits_));
    out_ += held_ / 8;
    bits_ >>= held_ / 8 * 8;
    held_ %= 8;
  }
  std::byte* end() const noexcept { return out_ + (held_ != 0 ? 1 : 0); }

 private:
  std::byte* out_;
  uint64_t bits_ = 0;
  unsigned held_ = 0;
};

/// A form of a block.
struct BlockForm {
  unsigned width = 0;
  unsigned high_width = 0;
  BlockMask exceptions;
};

/// Returns the form that takes the fewest bytes. Inlined, so that it is compiled for the caller's
/// instructions.
template <typename T>
__attribute__((always_inline)) inline BlockForm cheapest_form(const T* numbers, size_t count,
                                                              const BlockMask& escapes,
                                                              VectorPath path) noexcept {
  T any = 0;
  for (size_t i = 0; i < kBlockNumbers; ++i) any = static_cast<T>(any | numbers[i]);
  const auto longest = static_cast<unsigned>(std::bit_width(any));
  BlockForm best{longest, 0, escapes};
  size_t least = packed_bytes(count, longest) + packed_bytes(escapes.count(), kPlaceBits);
  for (unsigned width = longest; width-- != 0;) {
    const BlockMask exceptions = longer_than(numbers, width, path) | escapes;
    const uint32_t number = exceptions.count();
    if (number > kMaxExceptions) break;
    const size_t bytes =
        packed_bytes(count, width) + packed_bytes(number, kPlaceBits + longest - width);
    if (bytes < least) {
      least = bytes;
      best = {width, longest - width, exceptions};
    }
  }
  return best;
}

#if PENSTOCK_X86_PATHS
template <typename T>
PENSTOCK_TARGET_COUNT BlockForm cheapest_form_avx2(const T* numbers, size_t count,
                                                   const BlockMask& escapes) noexcept {
  return cheapest_form(numbers, count, escapes, VectorPath::kAvx2);
}
#endif

template <typename T>
BlockForm choose_form(const T* numbers, size_t count, const BlockMask& escapes,
                      VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2) return cheapest_form_avx2(numbers, count, escapes);
#endif
  return cheapest_form(numbers, count, escapes, path);
}

/// Appends the exceptions of half a block, which starts at number `first`.
template <typename T>
void append_patches(const BlockForm& form, uint64_t places, unsigned first, const T* numbers,
                    const BlockMask& escapes, BitAppender& out) noexcept {
  for (; places != 0; places &= places - 1) {
    const unsigned place = first + static_cast<unsigned>(std::countr_zero(places));
    const uint64_t high = escapes.has(place) ? 0 : numbers[place] >> form.width;
    out.append(place | high << kPlaceBits, kPlaceBits + form.high_width);
  }
}

}  // namespace

template <typename T>
void BlockWriter::append_block(const T* numbers, size_t count, const BlockMask& escapes) {
  if (bytes_.size() < used_ + kMostBlockBytes) {
    bytes_.resize(std::max(2 * bytes_.size(), used_ + kMostBlockBytes));
  }
  const BlockForm form = choose_form(numbers, count, escapes, path_);
  std::byte* out = bytes_.data() + used_;
  const auto head =
      static_cast<uint16_t>(form.width | form.high_width << 5 | form.exceptions.count() << 10);
  std::memcpy(out, &head, sizeof(head));
  BitAppender patches(out + sizeof(head));
  append_patches(form, form.exceptions.low, 0, numbers, escapes, patches);
  append_patches(form, form.exceptions.high, 64, numbers, escapes, patches);
  out = patches.end();
  pack_bits(numbers, count, form.width, out, path_);
  used_ = static_cast<size_t>(out - bytes_.data()) + packed_bytes(count, form.width);
}

template void BlockWriter::append_block(const uint8_t*, size_t, const BlockMask&);
template void BlockWriter::append_block(const uint16_t*, size_t, const BlockMask&);
template void BlockWriter::append_block(const uint32_t*, size_t, const BlockMask&);

}  // namespace penstock::format::pack
