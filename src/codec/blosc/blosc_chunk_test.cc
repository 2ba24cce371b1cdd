#include "codec/blosc/blosc_chunk.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "codec/testing/golden_chunks.h"

// Other tests of Blosc are in chunk_golden_test.cc.

namespace penstock::codec {
namespace {

constexpr size_t kBlock = 256;  ///< bytes of a block of golden_chunk()

/// Of LZ4, with several blocks whose byte planes are shuffled, of 4-byte cells.
const GoldenChunk& golden_chunk() {
  for (const GoldenChunk& chunk : golden_chunks()) {
    if (chunk.name.starts_with("blosc lz4 bytes width 4 block 257")) return chunk;
  }
  throw std::logic_error("no such golden chunk");
}

void put(Bytes& chunk, size_t at, uint32_t number) {
  std::memcpy(chunk.data() + at, &number, sizeof(number));
}

Bytes decode(const Bytes& stored) {
  Buffer work;
  const BloscChunk chunk(stored);
  Bytes cells(chunk.decoded_bytes());
  chunk.decode_all(cells, work);
  return cells;
}

/// The golden chunk with another byte.
Bytes changed(size_t at, uint8_t value) {
  Bytes chunk = golden_chunk().stored;
  chunk[at] = std::byte{value};
  return chunk;
}

std::string unsupported(const Bytes& chunk) {
  try {
    decode(chunk);
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

TEST(BloscChunk, SaysWhatItIs) {
  const BloscChunk chunk(golden_chunk().stored);
  EXPECT_EQ(chunk.decoded_bytes(), golden_chunk().cells.size());
  EXPECT_EQ(chunk.element_bytes(), 4U);
  EXPECT_EQ(chunk.block_bytes(), kBlock);
  EXPECT_EQ(chunk.block_count(), chunk.decoded_bytes() / kBlock + 1);
  EXPECT_EQ(chunk.block_size(0), kBlock);
  EXPECT_EQ(chunk.block_size(chunk.block_count() - 1), chunk.decoded_bytes() % kBlock);
  EXPECT_TRUE(chunk.byte_shuffled());
  EXPECT_FALSE(chunk.is_plain());
}

TEST(BloscChunk, OtherFormatsAreNamed) {
  const auto has = [](const Bytes& chunk, std::string_view text) {
    return unsupported(chunk).find(text) != std::string::npos;
  };
  EXPECT_TRUE(has(changed(0, 5), "Blosc 2"));
  EXPECT_TRUE(has(changed(0, 0x9E), "Blosc 2"));
  EXPECT_TRUE(has(changed(0, 1), "version 1"));
  EXPECT_TRUE(has(changed(1, 2), "lz4 of version 2"));
  EXPECT_TRUE(has(changed(2, 0x41), "Snappy"));
  EXPECT_TRUE(has(changed(2, 0xA1), "compressor 5"));
  EXPECT_TRUE(has(changed(2, 0x29), "flag 8"));
  EXPECT_THROW(decode(changed(0, 77)), CorruptData);
}

TEST(BloscChunk, BlocksMayLieInAnyOrder) {
  // Threads of a writer append the blocks that they finish.
  const Bytes& stored = golden_chunk().stored;
  const size_t blocks = BloscChunk(stored).block_count();
  const auto start_of = [&](size_t block) {
    uint32_t start;
    std::memcpy(&start, stored.data() + 16 + 4 * block, sizeof(start));
    return start;
  };
  Bytes chunk(stored.begin(), stored.begin() + start_of(0));
  for (size_t block = blocks; block-- > 0;) {
    put(chunk, 16 + 4 * block, static_cast<uint32_t>(chunk.size()));
    const size_t end = block + 1 < blocks ? start_of(block + 1) : stored.size();
    chunk.insert(chunk.end(), stored.begin() + start_of(block),
                 stored.begin() + static_cast<ptrdiff_t>(end));
  }
  ASSERT_EQ(chunk.size(), stored.size());
  EXPECT_NE(chunk, stored);
  EXPECT_EQ(decode(chunk), golden_chunk().cells);
}

TEST(BloscChunk, BlocksThatAreNotWantedAreNotRead) {
  const GoldenChunk& chunk = golden_chunk();
  const ChunkPipeline pipeline(chunk.filters);
  Bytes damaged = chunk.stored;
  put(damaged, 16, 0xFFFFFFFFU);  // start of block 0
  ChunkScratch scratch;
  const uint64_t size = chunk.cells.size();
  const uint64_t end = size / 4 * 4;
  EXPECT_THROW(join_parts(pipeline, damaged, size, 4, kBlock - 4, end, scratch), CorruptData);
  size_t shuffled = 0;
  const Bytes got = join_parts(pipeline, damaged, size, 4, kBlock, end, scratch, &shuffled);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), chunk.cells.begin() + kBlock));
  EXPECT_EQ(shuffled, size / kBlock - 1);  // the last block ends with a part of a cell
}

TEST(BloscChunk, SizesThatCannotBeAreCorrupt) {
  const auto with = [](size_t at, uint32_t number) {
    Bytes chunk = golden_chunk().stored;
    put(chunk, at, number);
    return chunk;
  };
  // Decoded bytes: more than LZ4 can make, more than Blosc can hold, none.
  EXPECT_THROW(BloscChunk{with(4, 0x7FFFFFFFU)}, CorruptData);
  EXPECT_THROW(BloscChunk{with(4, 0xFFFFFFFFU)}, CorruptData);
  EXPECT_THROW(BloscChunk{with(4, 0)}, CorruptData);
  // Bytes of a block: none, more than the chunk, so few that the block starts do not fit.
  EXPECT_THROW(BloscChunk{with(8, 0)}, CorruptData);
  EXPECT_THROW(BloscChunk{with(8, 0x7FFFFFFFU)}, CorruptData);
  EXPECT_THROW(BloscChunk{with(8, 1)}, CorruptData);
  // Stored bytes; a start in the last three bytes; elements of no bytes.
  EXPECT_THROW(BloscChunk{with(12, 100)}, CorruptData);
  const auto size = static_cast<uint32_t>(golden_chunk().stored.size());
  EXPECT_THROW(decode(with(16, size - 3)), CorruptData);
  EXPECT_THROW(decode(changed(3, 0)), CorruptData);
  Bytes longer = golden_chunk().stored;
  longer.push_back(std::byte{0});
  EXPECT_THROW(BloscChunk{longer}, CorruptData);
}

}  // namespace
}  // namespace penstock::codec
