#include "codec/chunk/chunk_stream.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/testing/test_seed.h"
#include "codec/testing/golden_chunks.h"
#include "codec/testing/shuffled_cells.h"

namespace penstock::codec {
namespace {

using Random = std::mt19937_64;

constexpr ChunkFilter kGzip{ChunkFilterType::kGzip};
constexpr ChunkFilter kZlib{ChunkFilterType::kZlib};

/// Some cells compress and some do not.
Bytes random_cells(Random& random, size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i / 5000 % 2 == 0 ? random() % 3 : random());
  }
  return bytes;
}

Bytes deflate_all(const Bytes& bytes, ChunkFilterType type) {
  z_stream stream = {};
  const int window = type == ChunkFilterType::kGzip ? 15 + 16 : 15;
  EXPECT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes stored(deflateBound(&stream, bytes.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(stored.data());
  stream.avail_out = static_cast<uInt>(stored.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  stored.resize(stream.total_out);
  deflateEnd(&stream);
  return stored;
}

ChunkStream stream_of(const ChunkPipeline& pipeline, const Bytes& stored, size_t decoded,
                      uint32_t width, uint32_t skipped = 0) {
  return {pipeline,
          {stored.size(), decoded, skipped},
          width,
          [&stored](uint64_t offset, std::span<std::byte> out) {
            if (offset + out.size() > stored.size()) throw Internal("a read beyond the chunk");
            std::memcpy(out.data(), stored.data() + offset, out.size());
          }};
}

Bytes decode(const ChunkPipeline& pipeline, const Bytes& stored, size_t size, uint32_t width,
             size_t step) {
  ChunkStream stream = stream_of(pipeline, stored, size, width);
  Bytes out(size);
  for (size_t at = 0; at < size; at += step) {
    stream.next(std::span(out).subspan(at, std::min(step, size - at)));
  }
  return out;
}

std::string message_of(const ChunkPipeline& pipeline, const Bytes& stored, size_t size,
                       uint32_t width) {
  try {
    decode(pipeline, stored, size, width, 400 * width);
  } catch (const CorruptData& error) {
    return error.what();
  }
  return {};
}

TEST(ChunkStream, SaysWhichChunksAreStreams) {
  const ChunkFilter shuffle{ChunkFilterType::kShuffle, 4};
  const ChunkFilter zstd{ChunkFilterType::kZstd, 0};
  const ChunkFilter fletcher{ChunkFilterType::kFletcher32, 0};
  EXPECT_TRUE(ChunkStream::decodes(ChunkPipeline(), 4));
  EXPECT_TRUE(ChunkStream::decodes(ChunkPipeline({shuffle}), 4));
  EXPECT_TRUE(ChunkStream::decodes(ChunkPipeline({kZlib}), 4));
  EXPECT_TRUE(ChunkStream::decodes(ChunkPipeline({shuffle, kGzip}), 4));
  EXPECT_FALSE(ChunkStream::decodes(ChunkPipeline({shuffle, kGzip}), 8));
  EXPECT_FALSE(ChunkStream::decodes(ChunkPipeline({kGzip, shuffle}), 4));
  EXPECT_FALSE(ChunkStream::decodes(ChunkPipeline({zstd}), 4));
  EXPECT_FALSE(ChunkStream::decodes(ChunkPipeline({kZlib, kZlib}), 4));
  EXPECT_FALSE(ChunkStream::decodes(ChunkPipeline({shuffle, kZlib, fletcher}), 4));
}

TEST(ChunkStream, GivesTheCellsInAnySteps) {
  const TestSeed seed(1);
  Random random(seed);
  for (int round = 0; round < 60; ++round) {
    const uint32_t width = std::vector<uint32_t>{1, 2, 3, 4, 8}[random() % 5];
    const size_t most = round % 10 == 0 ? 400'000 : 3000;
    const size_t size = random() % most * width;
    const Bytes cells = random_cells(random, size);
    std::vector<ChunkFilter> filters;
    if (random() % 2 == 0) filters.push_back({ChunkFilterType::kShuffle, width});
    if (random() % 4 != 0) filters.push_back(random() % 2 == 0 ? kZlib : kGzip);
    const auto skipped = static_cast<uint32_t>(random() % 4);
    Bytes stored = cells;
    for (size_t i = 0; i < filters.size(); ++i) {
      if ((skipped >> i & 1U) != 0) continue;
      stored = filters[i].type == ChunkFilterType::kShuffle ? shuffle(stored, width)
                                                            : deflate_all(stored, filters[i].type);
    }
    ChunkStream stream = stream_of(ChunkPipeline(filters), stored, size, width, skipped);
    for (size_t at = 0; at < size;) {
      ASSERT_EQ(stream.left(), size - at);
      const size_t step = std::min<size_t>(size - at, (1 + random() % (most / 3)) * width);
      if (random() % 3 == 0) {
        stream.skip(step);
      } else {
        Bytes out(step);
        stream.next(out);
        ASSERT_EQ(std::memcmp(out.data(), cells.data() + at, step), 0) << round << " at " << at;
      }
      at += step;
    }
    EXPECT_EQ(stream.left(), 0U);
  }
}

TEST(ChunkStream, ReadsWhatZarrWrote) {
  int count = 0;
  for (const GoldenChunk& chunk : golden_chunks()) {
    const ChunkPipeline pipeline(chunk.filters);
    uint32_t width = 1;
    for (const ChunkFilter& filter : chunk.filters) {
      if (filter.type == ChunkFilterType::kShuffle) width = filter.element_bytes;
    }
    if (chunk.strings || width == 0 || !ChunkStream::decodes(pipeline, width)) continue;
    if (chunk.cells.size() % width != 0) continue;
    EXPECT_EQ(decode(pipeline, chunk.stored, chunk.cells.size(), width, 700 * width), chunk.cells)
        << chunk.name;
    ++count;
  }
  EXPECT_GT(count, 10);
}

TEST(ChunkStream, JoinsGzipMembers) {
  Random random(2);
  const Bytes a = random_cells(random, 3000), b = random_cells(random, 5000);
  Bytes cells = a, stored = deflate_all(a, ChunkFilterType::kGzip);
  const Bytes more = deflate_all(b, ChunkFilterType::kGzip);
  cells.insert(cells.end(), b.begin(), b.end());
  stored.insert(stored.end(), more.begin(), more.end());
  EXPECT_EQ(decode(ChunkPipeline({kGzip}), stored, cells.size(), 1, 999), cells);
  EXPECT_EQ(message_of(ChunkPipeline({kGzip}), stored, a.size(), 1),
            "zlib: the stream makes more bytes than the chunk has");
}

TEST(ChunkStream, DamageIsAnError) {
  Random random(3);
  const Bytes cells = random_cells(random, 40'000);
  for (const bool shuffled : {false, true}) {
    std::vector<ChunkFilter> filters;
    if (shuffled) filters.push_back({ChunkFilterType::kShuffle, 4});
    filters.push_back(kZlib);
    const ChunkPipeline pipeline(filters);
    const Bytes stored = deflate_all(shuffled ? shuffle(cells, 4) : cells, ChunkFilterType::kZlib);
    ASSERT_EQ(message_of(pipeline, stored, cells.size(), 4), "");
    for (int round = 0; round < 200; ++round) {
      Bytes bad = stored;
      bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
      EXPECT_NE(message_of(pipeline, bad, cells.size(), 4), "");  // Adler-32, at the latest
      bad.assign(stored.begin(), stored.begin() + static_cast<ptrdiff_t>(random() % stored.size()));
      EXPECT_EQ(message_of(pipeline, bad, cells.size(), 4),
                "the stored bytes end before the chunk is complete");
    }
    Bytes longer = stored;
    longer.push_back(std::byte{0});
    EXPECT_EQ(message_of(pipeline, longer, cells.size(), 4),
              "1 of " + std::to_string(longer.size()) +
                  " stored bytes are left behind the end of the chunk");
    EXPECT_EQ(message_of(pipeline, stored, cells.size() - 4, 4),
              "zlib: the stream makes more bytes than the chunk has");
    EXPECT_NE(message_of(pipeline, stored, cells.size() + 4, 4), "");
  }
  EXPECT_EQ(message_of(ChunkPipeline(), cells, cells.size() - 4, 4),
            "4 of 40000 stored bytes are left behind the end of the chunk");
  EXPECT_EQ(message_of(ChunkPipeline(), cells, cells.size() + 4, 4),
            "the stored bytes end before the chunk is complete");
}

}  // namespace
}  // namespace penstock::codec
