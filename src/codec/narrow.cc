#include "codec/narrow.h"

#include <bit>
#include <cstring>

#include "codec/byteshuffle.h"
#include "codec/narrow_avx2.h"

namespace penstock::codec {
namespace {

static_assert(std::endian::native == std::endian::little, "stored cells are little-endian");

#if defined(__x86_64__)
constexpr bool kHasAvx2Paths = true;
#else
constexpr bool kHasAvx2Paths = false;
#endif

bool use_avx2(SimdLevel level) noexcept { return kHasAvx2Paths && level == SimdLevel::kAvx2; }

/// One bit pattern a value, cells one after the other.
template <typename Bits>
struct Plain {
  const std::byte* cells;
  Bits operator()(size_t i) const noexcept {
    Bits bits;
    std::memcpy(&bits, cells + i * sizeof(Bits), sizeof(Bits));
    return bits;
  }
};

/// The same from planes.
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

bool all_zero(const std::byte* bytes, size_t count, SimdLevel level) noexcept {
#if defined(__x86_64__)
  if (use_avx2(level)) return avx2::all_zero(bytes, count);
#endif
  (void)level;
  std::byte seen{0};
  for (size_t i = 0; i < count; ++i) seen |= bytes[i];
  return seen == std::byte{0};
}

template <typename Narrow>
bool unshuffle_narrow(std::span<const std::byte> planes, std::span<Narrow> out,
                      SimdLevel level) noexcept {
  const size_t low = sizeof(Narrow) * out.size();
  if (!all_zero(planes.data() + low, planes.size() - low, level)) return false;
  unshuffle_bytes(sizeof(Narrow), planes.first(low), std::as_writable_bytes(out), level);
  return true;
}

template <typename Narrow>
bool narrow_rest(std::span<const std::byte> cells, size_t done, std::span<Narrow> out) noexcept {
  const Plain<uint64_t> value{cells.data()};
  uint64_t seen = 0;
  for (size_t i = done; i < out.size(); ++i) {
    const uint64_t bits = value(i);
    seen |= bits;
    out[i] = static_cast<Narrow>(bits);
  }
  return seen >> (8 * sizeof(Narrow)) == 0;
}

/// Codes of values [begin, end), one at a time.
template <typename T, typename Bits, typename Read>
bool codes_scalar(Read read, size_t begin, size_t end, std::span<uint8_t> codes,
                  Escapes<Bits>& escapes, size_t max_escapes) {
  for (size_t i = begin; i < end; ++i) {
    const Bits bits = read(i);
    const uint8_t code = code_of(std::bit_cast<T>(bits));
    codes[i] = code;
    if (code == kEscape) {
      escapes.push_back({static_cast<uint32_t>(i), bits});
      if (escapes.size() > max_escapes) return false;
    }
  }
  return true;
}

template <typename T, typename Bits, typename Read>
bool to_codes(avx2::CodeRun run, Read read, const std::byte* in, std::span<uint8_t> codes,
              Escapes<Bits>& escapes, size_t max_escapes, SimdLevel level) {
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

#if defined(__x86_64__)
#define PENSTOCK_RUN(name) avx2::name
#else
#define PENSTOCK_RUN(name) nullptr
#endif

}  // namespace

bool unshuffle_to_uint16(std::span<const std::byte> planes, std::span<uint16_t> out,
                         SimdLevel level) noexcept {
  return unshuffle_narrow(planes, out, level);
}

bool unshuffle_to_uint32(std::span<const std::byte> planes, std::span<uint32_t> out,
                         SimdLevel level) noexcept {
  return unshuffle_narrow(planes, out, level);
}

bool narrow_to_uint16(std::span<const std::byte> cells, std::span<uint16_t> out,
                      SimdLevel level) noexcept {
  size_t done = 0;
  bool fits = true;
#if defined(__x86_64__)
  if (use_avx2(level)) {
    done = avx2::narrow_to_uint16(cells.data(), out.size(), out.data(), fits);
  }
#endif
  (void)level;
  return fits && narrow_rest(cells, done, out);
}

bool narrow_to_uint32(std::span<const std::byte> cells, std::span<uint32_t> out,
                      SimdLevel level) noexcept {
  size_t done = 0;
  bool fits = true;
#if defined(__x86_64__)
  if (use_avx2(level)) {
    done = avx2::narrow_to_uint32(cells.data(), out.size(), out.data(), fits);
  }
#endif
  (void)level;
  return fits && narrow_rest(cells, done, out);
}

bool float32_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                      Escapes<uint32_t>& escapes, size_t max_escapes, SimdLevel level) {
  return to_codes<float>(PENSTOCK_RUN(float32_run), Plain<uint32_t>{cells.data()}, cells.data(),
                         codes, escapes, max_escapes, level);
}

bool int32_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                    Escapes<uint32_t>& escapes, size_t max_escapes, SimdLevel level) {
  return to_codes<int32_t>(PENSTOCK_RUN(int32_run), Plain<uint32_t>{cells.data()}, cells.data(),
                           codes, escapes, max_escapes, level);
}

bool int64_to_codes(std::span<const std::byte> cells, std::span<uint8_t> codes,
                    Escapes<uint64_t>& escapes, size_t max_escapes, SimdLevel level) {
  return to_codes<int64_t>(PENSTOCK_RUN(int64_run), Plain<uint64_t>{cells.data()}, cells.data(),
                           codes, escapes, max_escapes, level);
}

bool shuffled_float32_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                               Escapes<uint32_t>& escapes, size_t max_escapes, SimdLevel level) {
  return to_codes<float>(PENSTOCK_RUN(shuffled_float32_run),
                         Shuffled<uint32_t>{planes.data(), codes.size()}, planes.data(), codes,
                         escapes, max_escapes, level);
}

bool shuffled_int32_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                             Escapes<uint32_t>& escapes, size_t max_escapes, SimdLevel level) {
  return to_codes<int32_t>(PENSTOCK_RUN(shuffled_int32_run),
                           Shuffled<uint32_t>{planes.data(), codes.size()}, planes.data(), codes,
                           escapes, max_escapes, level);
}

bool shuffled_int64_to_codes(std::span<const std::byte> planes, std::span<uint8_t> codes,
                             Escapes<uint64_t>& escapes, size_t max_escapes, SimdLevel level) {
  return to_codes<int64_t>(PENSTOCK_RUN(shuffled_int64_run),
                           Shuffled<uint64_t>{planes.data(), codes.size()}, planes.data(), codes,
                           escapes, max_escapes, level);
}

#undef PENSTOCK_RUN

}  // namespace penstock::codec
