#include "base/hash/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "base/testing/test_seed.h"

namespace penstock {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
  return bytes;
}

// RFC 3720, appendix B.4, and the check value of the catalogue of parametrised CRCs.
TEST(Checksum, KnownValues) {
  for (const VectorPath path : {VectorPath::kScalar, best_vector_path()}) {
    EXPECT_EQ(crc32c({}, 0, path), 0U);
    EXPECT_EQ(crc32c(bytes_of("123456789"), 0, path), 0xE3069283U);
    EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0}), 0, path), 0x8A9136AAU);
    EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{255}), 0, path), 0x62A8AB43U);
  }
}

TEST(Checksum, PathsAgreeAtEveryLength) {
  const TestSeed seed(1);
  const auto bytes = random_bytes(700, seed);
  for (size_t length = 0; length < bytes.size(); ++length) {
    for (size_t offset : {size_t{0}, size_t{1}}) {
      if (offset > length) continue;
      const auto part = std::span(bytes).subspan(offset, length - offset);
      EXPECT_EQ(crc32c(part), crc32c(part, 0, VectorPath::kScalar));
      EXPECT_EQ(lane_checksum(part), lane_checksum(part, VectorPath::kScalar));
    }
  }
}

TEST(Checksum, GoesOnFromASeed) {
  const TestSeed seed(2);
  const auto bytes = random_bytes(100, seed);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(crc32c(std::span(bytes).subspan(cut), crc32c(std::span(bytes).first(cut))),
              crc32c(bytes));
  }
}

// The header's definition, one lane at a time.
TEST(Checksum, LanesAreWhatTheHeaderSays) {
  for (const size_t length : std::initializer_list<size_t>{0, 5, 31, 32, 33, 64, 100, 256, 1000}) {
    const TestSeed seed(length);
    const auto bytes = random_bytes(length, seed);
    const size_t whole = length / 32 * 32;
    std::vector<std::byte> combined;
    for (size_t lane = 0; lane < 4; ++lane) {
      std::vector<std::byte> own;
      for (size_t at = lane * 8; at < whole; at += 32) {
        own.insert(own.end(), bytes.begin() + static_cast<ptrdiff_t>(at),
                   bytes.begin() + static_cast<ptrdiff_t>(at + 8));
      }
      const uint32_t crc = crc32c(own);
      const auto crc_bytes = std::as_bytes(std::span(&crc, 1));
      combined.insert(combined.end(), crc_bytes.begin(), crc_bytes.end());
    }
    combined.insert(combined.end(), bytes.begin() + static_cast<ptrdiff_t>(whole), bytes.end());
    EXPECT_EQ(lane_checksum(bytes), crc32c(combined)) << length;
  }
}

TEST(Checksum, EveryFlippedBitIsSeen) {
  const TestSeed seed(3);
  auto bytes = random_bytes(75, seed);
  const uint32_t before = lane_checksum(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(lane_checksum(bytes), before);
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace penstock
