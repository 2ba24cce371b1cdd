#include "format/row_file/bit_packing.h"

#include <algorithm>
#include <array>
#include <cstring>

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#endif

namespace penstock::format::pack {
namespace {

template <typename T>
void unpack_scalar(const std::byte* in, size_t begin, size_t count, unsigned width, T add,
                   T* out) noexcept {
  const uint64_t mask = (uint64_t{1} << width) - 1;
  for (size_t i = begin; i < count; ++i) {
    const size_t bit = i * width;
    uint64_t bits;
    std::memcpy(&bits, in + bit / 8, sizeof(bits));
    out[i] = static_cast<T>(((bits >> (bit % 8)) & mask) + add);
  }
}

template <typename T>
void pack_scalar(const T* values, size_t count, unsigned width, std::byte* out) noexcept {
  const uint64_t mask = (uint64_t{1} << width) - 1;
  uint64_t bits = 0;
  unsigned held = 0;
  for (size_t i = 0; i < count; ++i) {
    bits |= (values[i] & mask) << held;
    held += width;
    if (held >= 32) {
      const auto low = static_cast<uint32_t>(bits);
      std::memcpy(out, &low, sizeof(low));
      out += sizeof(low);
      bits >>= 32;
      held -= 32;
    }
  }
  if (held != 0) std::memcpy(out, &bits, (held + 7) / 8);
}

#if PENSTOCK_X86_PATHS

#define PENSTOCK_TARGET_BMI2 __attribute__((target("bmi2")))

bool has_bmi2() noexcept {
  static const bool has = __builtin_cpu_supports("bmi2");
  return has;
}

uint64_t load_word(const void* from) noexcept {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

PENSTOCK_TARGET_BMI2 void pack_bmi2(const uint8_t* values, size_t count, unsigned width,
                                    std::byte* out) noexcept {
  const uint64_t mask = 0x0101010101010101U * ((uint64_t{1} << width) - 1);
  for (size_t i = 0; i < count; i += 8, out += width) {
    const uint64_t bits = _pext_u64(load_word(values + i), mask);
    std::memcpy(out, &bits, sizeof(bits));
  }
}

PENSTOCK_TARGET_BMI2 void pack_bmi2(const uint16_t* values, size_t count, unsigned width,
                                    std::byte* out) noexcept {
  const uint64_t mask = 0x0001000100010001U * ((uint64_t{1} << width) - 1);
  for (size_t i = 0; i < count; i += 8, out += width) {
    // Eight values are up to 128 bits: the second four may start in the middle of a byte.
    const uint64_t first = _pext_u64(load_word(values + i), mask);
    const uint64_t second = _pext_u64(load_word(values + i + 4), mask);
    const unsigned __int128 bits = first | static_cast<unsigned __int128>(second) << (4 * width);
    std::memcpy(out, &bits, sizeof(bits));
  }
}

/// Places of four values of a width, for the first and the second four of eight: which bytes go to
/// each lane, and how far the lane is shifted down.
struct FourValues {
  std::array<uint8_t, 16> shuffle{};
  std::array<uint32_t, 4> shift{};
};
struct EightValues {
  FourValues first, second;
};

/// Up to this width a value, with at most seven bits before it, fits a lane.
constexpr unsigned kMaxLaneWidth = 25;

constexpr FourValues four_values(unsigned width, unsigned first_bit) {
  FourValues values;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned bit = first_bit + i * width;
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned byte = bit / 8 + k;
      // A byte that no bit of the value is in may lie outside the 16 that are loaded.
      const bool used = byte * 8 < bit + width;
      values.shuffle[i * 4 + k] = static_cast<uint8_t>(used ? byte : 0x80);
    }
    values.shift[i] = bit % 8;
  }
  return values;
}

constexpr auto make_widths() {
  std::array<EightValues, kMaxLaneWidth + 1> widths{};
  for (unsigned width = 0; width <= kMaxLaneWidth; ++width) {
    widths[width] = {four_values(width, 0), four_values(width, 4 * width % 8)};
  }
  return widths;
}
constexpr auto kWidths = make_widths();

#define PENSTOCK_AVX2 __attribute__((target("avx2"), always_inline)) inline

/// Unpacks groups of eight values, `width` bytes each; two groups are in a pair of vectors so that
/// narrowing them keeps their order: values 0-3 and 8-11, values 4-7 and 12-15.
class Unpacker {
 public:
  PENSTOCK_AVX2 explicit Unpacker(unsigned width) noexcept
      : width_(width),
        second_(4 * width / 8),
        shuffle_first_(both(kWidths[width].first.shuffle.data())),
        shuffle_second_(both(kWidths[width].second.shuffle.data())),
        shift_first_(both(kWidths[width].first.shift.data())),
        shift_second_(both(kWidths[width].second.shift.data())),
        mask_(_mm256_set1_epi32(static_cast<int>((1U << width) - 1))) {}

  /// Values 0 … 15 from `in` as 16-bit lanes.
  PENSTOCK_AVX2 __m256i sixteen(const std::byte* in) const noexcept {
    return _mm256_packus_epi32(
        four(in, in + width_, shuffle_first_, shift_first_),
        four(in + second_, in + width_ + second_, shuffle_second_, shift_second_));
  }
  /// Values 0 … 7 as 32-bit lanes.
  PENSTOCK_AVX2 __m256i eight(const std::byte* in) const noexcept {
    const __m256i bytes = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_shuffle_epi8(load(in), _mm256_castsi256_si128(shuffle_first_))),
        _mm_shuffle_epi8(load(in + second_), _mm256_castsi256_si128(shuffle_second_)), 1);
    const __m256i shift = _mm256_permute2x128_si256(shift_first_, shift_second_, 0x20);
    return _mm256_and_si256(_mm256_srlv_epi32(bytes, shift), mask_);
  }

 private:
  template <typename T>
  PENSTOCK_AVX2 static __m256i both(const T* sixteen_bytes) noexcept {
    return _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(sixteen_bytes)));
  }
  PENSTOCK_AVX2 static __m128i load(const std::byte* from) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  PENSTOCK_AVX2 __m256i four(const std::byte* low, const std::byte* high, __m256i shuffle,
                             __m256i shift) const noexcept {
    const __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(load(low)), load(high), 1);
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(bytes, shuffle), shift), mask_);
  }

  size_t width_;
  size_t second_;  ///< byte where the second four of eight begin
  __m256i shuffle_first_, shuffle_second_, shift_first_, shift_second_, mask_;
};

PENSTOCK_TARGET_AVX2 size_t unpack_avx2(const std::byte* in, size_t count, unsigned width,
                                        uint16_t* out) noexcept {
  const Unpacker unpacker(width);
  size_t i = 0;
  for (; i + 16 <= count; i += 16, in += 2 * width) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), unpacker.sixteen(in));
  }
  return i;
}

PENSTOCK_TARGET_AVX2 size_t unpack_avx2(const std::byte* in, size_t count, unsigned width,
                                        uint32_t* out) noexcept {
  const Unpacker unpacker(width);
  size_t i = 0;
  for (; i + 8 <= count; i += 8, in += width) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), unpacker.eight(in));
  }
  return i;
}

PENSTOCK_TARGET_AVX2 size_t unpack_counts_avx2(const std::byte* in, size_t count, unsigned width,
                                               uint8_t* out) noexcept {
  const Unpacker unpacker(width);
  const __m256i one = _mm256_set1_epi8(1);
  size_t i = 0;
  for (; i + 32 <= count; i += 32, in += 4 * width) {
    // Halves of the two vectors are interleaved by the narrowing, and put right again.
    const __m256i bytes = _mm256_permute4x64_epi64(
        _mm256_packus_epi16(unpacker.sixteen(in), unpacker.sixteen(in + 2 * width)), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_add_epi8(bytes, one));
  }
  return i;
}

#endif

template <typename T>
void pack_narrow(const T* values, size_t count, unsigned width, std::byte* out,
                 VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2 && has_bmi2()) return pack_bmi2(values, count, width, out);
#endif
  static_cast<void>(path);
  pack_scalar(values, count, width, out);
}

}  // namespace

void pack_bits(const uint8_t* values, size_t count, unsigned width, std::byte* out,
               VectorPath path) noexcept {
  pack_narrow(values, count, width, out, path);
}

void pack_bits(const uint16_t* values, size_t count, unsigned width, std::byte* out,
               VectorPath path) noexcept {
  pack_narrow(values, count, width, out, path);
}

void pack_bits(const uint32_t* values, size_t count, unsigned width, std::byte* out,
               VectorPath /*path*/) noexcept {
  pack_scalar(values, count, width, out);
}

void unpack_bits(const std::byte* in, size_t count, unsigned width, uint16_t* out,
                 VectorPath path) noexcept {
  size_t done = 0;
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2) done = unpack_avx2(in, count, width, out);
#endif
  static_cast<void>(path);
  unpack_scalar<uint16_t>(in, done, count, width, 0, out);
}

void unpack_bits(const std::byte* in, size_t count, unsigned width, uint32_t* out,
                 VectorPath path) noexcept {
  size_t done = 0;
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2 && width <= kMaxLaneWidth) {
    done = unpack_avx2(in, count, width, out);
  }
#endif
  static_cast<void>(path);
  unpack_scalar<uint32_t>(in, done, count, width, 0, out);
}

void unpack_counts(const std::byte* in, size_t count, unsigned width, uint8_t* out,
                   VectorPath path) noexcept {
  size_t done = 0;
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2) done = unpack_counts_avx2(in, count, width, out);
#endif
  static_cast<void>(path);
  unpack_scalar<uint8_t>(in, done, count, width, 1, out);
}

}  // namespace penstock::format::pack
