#include "codec/value_codes.h"

#include <bit>
#include <cstring>

#include "codec/value_codes_avx2.h"

namespace penstock::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "stored cells are little-endian");

bool use_avx2(VectorPath level) noexcept {
  return PENSTOCK_X86_PATHS != 0 && level == VectorPath::kAvx2;
}

/// Reads bit patterns of values from cells.
template <typename Bits>
struct Plain {
  const std::byte* cells;
  Bits operator()(size_t i) const noexcept {
    Bits bits;
    std::memcpy(&bits, cells + i * sizeof(Bits), sizeof(Bits));
    return bits;
  }
};

/// Reads bit patterns of values from byte planes.
template <typename Bits>
struct Shuffled {
  const std::byte* planes;
  size_t count;
  Bits operator()(size_t i) const noexcept {
    Bits bits = 0;
    for (size_t k = 0; k < sizeof(Bits); ++k) {
      bits |= static_cast<Bits>(std::to_integer<Bits>(planes[k * count + i]) << (8 * k));
    }
    return bits;
  }
};

/// Codes of values [begin, end), one at a time.
template <typename T, typename Bits, typename Read>
bool codes_scalar(Read read, size_t begin, size_t end, std::span<uint8_t> codes,
                  Escapes<Bits>& escapes, size_t max_escapes) {
  for (size_t i = begin; i < end; ++i) {
    const Bits bits = read(i);
    const uint8_t code = code_of(std::bit_cast<T>(bits));
    codes[i] = code;
    if (code == kEscapeCode) {
      escapes.push_back({static_cast<uint32_t>(i), bits});
      if (escapes.size() > max_escapes) return false;
    }
  }
  return true;
}

template <typename T, typename Bits, typename Read>
bool to_codes(avx2::CodeRun run, Read read, const std::byte* in, std::span<uint8_t> codes,
              Escapes<Bits>& escapes, size_t max_escapes, VectorPath level) {
  size_t done = 0;
  if (use_avx2(level)) {
    for (uint32_t escaped = 1; escaped != 0;) {
      done = run(in, done, codes.size(), codes.data(), escaped);
      for (uint32_t left = escaped; left != 0; left &= left - 1) {
        const size_t i = done - avx2::kBlockValues + static_cast<size_t>(std::countr_zero(left));
        escapes.push_back({static_cast<uint32_t>(i), read(i)});
      }
      if (escapes.size() > max_escapes) return false;
    }
  }
  return codes_scalar<T>(read, done, codes.size(), codes, escapes, max_escapes);
}

#if PENSTOCK_X86_PATHS
#define PENSTOCK_RUN(name) avx2::name
#else
#define PENSTOCK_RUN(name) nullptr
#endif

}  // namespace

bool float32_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                      Escapes<uint32_t>& escapes, size_t max_escapes, VectorPath level) {
  return to_codes<float>(PENSTOCK_RUN(float32_run), Plain<uint32_t>{cells.data()}, cells.data(),
                         codes, escapes, max_escapes, level);
}

bool int32_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                    Escapes<uint32_t>& escapes, size_t max_escapes, VectorPath level) {
  return to_codes<int32_t>(PENSTOCK_RUN(int32_run), Plain<uint32_t>{cells.data()}, cells.data(),
                           codes, escapes, max_escapes, level);
}

bool int64_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                    Escapes<uint64_t>& escapes, size_t max_escapes, VectorPath level) {
  return to_codes<int64_t>(PENSTOCK_RUN(int64_run), Plain<uint64_t>{cells.data()}, cells.data(),
                           codes, escapes, max_escapes, level);
}

bool shuffled_float32_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                               Escapes<uint32_t>& escapes, size_t max_escapes, VectorPath level) {
  return to_codes<float>(PENSTOCK_RUN(shuffled_float32_run),
                         Shuffled<uint32_t>{planes.data(), codes.size()}, planes.data(), codes,
                         escapes, max_escapes, level);
}

bool shuffled_int32_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                             Escapes<uint32_t>& escapes, size_t max_escapes, VectorPath level) {
  return to_codes<int32_t>(PENSTOCK_RUN(shuffled_int32_run),
                           Shuffled<uint32_t>{planes.data(), codes.size()}, planes.data(), codes,
                           escapes, max_escapes, level);
}

bool shuffled_int64_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                             Escapes<uint64_t>& escapes, size_t max_escapes, VectorPath level) {
  return to_codes<int64_t>(PENSTOCK_RUN(shuffled_int64_run),
                           Shuffled<uint64_t>{planes.data(), codes.size()}, planes.data(), codes,
                           escapes, max_escapes, level);
}

#undef PENSTOCK_RUN

}  // namespace penstock::codec
