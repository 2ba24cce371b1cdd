#include "base/hash/checksum.h"

#include <array>
#include <cstring>

#if PENSTOCK_X86_PATHS
#include <immintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace penstock {
namespace {

constexpr size_t kLanes = 4;
constexpr size_t kLaneBytes = 8;
using Lanes = std::array<uint32_t, kLanes>;
using Tables = std::array<std::array<uint32_t, 256>, 8>;

/// Table k has the effect of a byte that k others follow, so eight bytes are processed at once.
constexpr Tables make_tables() {
  constexpr uint32_t kPolynomial = 0x82F63B78U;  // reflected
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}
constexpr Tables kTables = make_tables();

uint64_t load_word(const std::byte* from) noexcept {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

struct Scalar {
  static uint32_t word(uint32_t crc, uint64_t bits) noexcept {
    bits ^= crc;
    uint32_t result = 0;
    for (size_t k = 0; k < 8; ++k) result ^= kTables[7 - k][(bits >> (8 * k)) & 255];
    return result;
  }
  static uint32_t byte(uint32_t crc, uint8_t value) noexcept {
    return (crc >> 8) ^ kTables[0][(crc ^ value) & 255];
  }
};

#if PENSTOCK_X86_PATHS
#define PENSTOCK_CRC __attribute__((target("sse4.2,crc32")))
struct Instruction {
  PENSTOCK_CRC static uint32_t word(uint32_t crc, uint64_t bits) noexcept {
    return static_cast<uint32_t>(_mm_crc32_u64(crc, bits));
  }
  PENSTOCK_CRC static uint32_t byte(uint32_t crc, uint8_t value) noexcept {
    return _mm_crc32_u8(crc, value);
  }
};
#elif defined(__ARM_FEATURE_CRC32)
#define PENSTOCK_CRC
struct Instruction {
  static uint32_t word(uint32_t crc, uint64_t bits) noexcept { return __crc32cd(crc, bits); }
  static uint32_t byte(uint32_t crc, uint8_t value) noexcept { return __crc32cb(crc, value); }
};
#endif

// The loops are repeated here: a function compiled for an instruction set is not inlined into one
// that is not.

uint32_t run_scalar(std::span<const std::byte> bytes, uint32_t crc) noexcept {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) crc = Scalar::word(crc, load_word(bytes.data() + i));
  for (; i < bytes.size(); ++i) crc = Scalar::byte(crc, static_cast<uint8_t>(bytes[i]));
  return crc;
}

size_t lanes_scalar(std::span<const std::byte> bytes, Lanes& lanes) noexcept {
  size_t i = 0;
  for (; i + kLanes * kLaneBytes <= bytes.size(); i += kLanes * kLaneBytes) {
    for (size_t k = 0; k < kLanes; ++k) {
      lanes[k] = Scalar::word(lanes[k], load_word(bytes.data() + i + k * kLaneBytes));
    }
  }
  return i;
}

#ifdef PENSTOCK_CRC
PENSTOCK_CRC uint32_t run_instruction(std::span<const std::byte> bytes, uint32_t crc) noexcept {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) crc = Instruction::word(crc, load_word(bytes.data() + i));
  for (; i < bytes.size(); ++i) crc = Instruction::byte(crc, static_cast<uint8_t>(bytes[i]));
  return crc;
}

PENSTOCK_CRC size_t lanes_instruction(std::span<const std::byte> bytes, Lanes& lanes) noexcept {
  auto [a, b, c, d] = lanes;
  size_t i = 0;
  for (; i + kLanes * kLaneBytes <= bytes.size(); i += kLanes * kLaneBytes) {
    const std::byte* const from = bytes.data() + i;
    a = Instruction::word(a, load_word(from));
    b = Instruction::word(b, load_word(from + kLaneBytes));
    c = Instruction::word(c, load_word(from + 2 * kLaneBytes));
    d = Instruction::word(d, load_word(from + 3 * kLaneBytes));
  }
  lanes = {a, b, c, d};
  return i;
}
#endif

bool has_instruction(VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  static const bool there = __builtin_cpu_supports("sse4.2") != 0;
  return there && path != VectorPath::kScalar;
#elif defined(PENSTOCK_CRC)
  static_cast<void>(path);
  return true;
#else
  static_cast<void>(path);
  return false;
#endif
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed, VectorPath path) noexcept {
#ifdef PENSTOCK_CRC
  if (has_instruction(path)) return ~run_instruction(bytes, ~seed);
#endif
  static_cast<void>(has_instruction);
  static_cast<void>(path);
  return ~run_scalar(bytes, ~seed);
}

uint32_t lane_checksum(std::span<const std::byte> bytes, VectorPath path) noexcept {
  Lanes lanes;
  lanes.fill(~0U);
  size_t done = 0;
#ifdef PENSTOCK_CRC
  if (has_instruction(path)) {
    done = lanes_instruction(bytes, lanes);
  } else {
    done = lanes_scalar(bytes, lanes);
  }
#else
  done = lanes_scalar(bytes, lanes);
#endif
  for (uint32_t& lane : lanes) lane = ~lane;
  const uint32_t combined = crc32c(std::as_bytes(std::span(lanes)), 0, path);
  return crc32c(bytes.subspan(done), combined, path);
}

}  // namespace penstock
