#include "format/zarr/shards/shard_index.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>

#include "base/hash/checksum.h"

namespace penstock::format::zarr {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
void put(Bytes& bytes, T value) {
  const auto view = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), view.begin(), view.end());
}

Bytes index_of(const std::vector<uint64_t>& numbers) {
  Bytes bytes;
  for (const uint64_t number : numbers) put(bytes, number);
  put(bytes, crc32c(bytes));
  return bytes;
}

constexpr ShardIndexForm kTwo{2, false, true, false};

TEST(ShardIndex, GivesPlacesAndAbsentChunks) {
  const Bytes stored = index_of({100, 20, UINT64_MAX, UINT64_MAX});
  const auto index = ShardIndex::parse(stored, kTwo, 200);
  EXPECT_EQ(index.chunk(0), (io::ByteRange{100, 20}));
  EXPECT_EQ(index.chunk(1), std::nullopt);
  EXPECT_EQ(index.chunk(2), std::nullopt);
  EXPECT_EQ(ShardIndex().chunk(0), std::nullopt);
}

TEST(ShardIndex, ChunksMustLieWithinTheShard) {
  for (const auto& [offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{
           {181, 20}, {201, 0}, {0, 201}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {UINT64_MAX - 5, 10}}) {
    EXPECT_THROW(ShardIndex::parse(index_of({offset, length, 0, 0}), kTwo, 200), CorruptData);
  }
  EXPECT_NO_THROW(ShardIndex::parse(index_of({180, 20, 200, 0}), kTwo, 200));
}

TEST(ShardIndex, EveryFlippedBitAndEveryLengthIsSeen) {
  const Bytes stored = index_of({100, 20, 120, 40});
  for (size_t bit = 0; bit < 8 * stored.size(); ++bit) {
    Bytes damaged = stored;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_THROW(ShardIndex::parse(damaged, kTwo, 200), CorruptData) << bit;
  }
  for (size_t size = 0; size < stored.size(); ++size) {
    EXPECT_THROW(ShardIndex::parse(std::span(stored).first(size), kTwo, 200), CorruptData);
  }
}

TEST(ShardIndex, LiesAtEitherEnd) {
  EXPECT_EQ(kTwo.place_in(200), (io::ByteRange{164, 36}));
  EXPECT_EQ((ShardIndexForm{2, true, false, false}.place_in(200)), (io::ByteRange{0, 32}));
  EXPECT_THROW(kTwo.place_in(35), CorruptData);
  EXPECT_THROW((ShardIndexForm{UINT64_MAX / 16 + 1, false, true, false}.place_in(200)),
               CorruptData);
  // Nothing is allocated for a number of chunks that the shard cannot have.
  EXPECT_THROW((ShardIndexForm{uint64_t{1} << 50, false, true, false}.place_in(200)), CorruptData);
}

TEST(ShardIndex, NumbersMayBeBigEndian) {
  Bytes stored;
  for (const uint64_t number : {uint64_t{100}, uint64_t{20}})
    put(stored, __builtin_bswap64(number));
  const auto index = ShardIndex::parse(stored, {1, false, false, true}, 200);
  EXPECT_EQ(index.chunk(0), (io::ByteRange{100, 20}));
}

}  // namespace
}  // namespace penstock::format::zarr
