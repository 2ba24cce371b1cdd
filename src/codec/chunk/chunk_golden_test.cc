#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/testing/test_seed.h"
#include "codec/testing/golden_chunks.h"
#include "codec/vlen_utf8.h"

// Tests chunk pipelines with chunks that zarr's codecs wrote, and with the same chunks damaged.

namespace penstock::codec {
namespace {

constexpr uint64_t kMost = uint64_t{64} << 20;

struct Strings {
  Bytes characters;
  std::vector<uint64_t> offsets;
};

Strings read_strings(std::span<const std::byte> chunk, uint64_t count) {
  Strings strings;
  decode_vlen_utf8(chunk, count, strings.characters, strings.offsets);
  return strings;
}

Bytes decode(const ChunkPipeline& pipeline, std::span<const std::byte> stored, size_t size,
             ChunkScratch& scratch) {
  Bytes cells(size);
  pipeline.decode(stored, 0, cells, scratch);
  return cells;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST(ChunkGolden, CoversCompressorsShufflesAndWidths) {
  std::map<ChunkFilterType, int> filters;
  std::set<std::array<uint32_t, 3>> blosc;
  for (const GoldenChunk& chunk : golden_chunks()) {
    for (const ChunkFilter& filter : chunk.filters) ++filters[filter.type];
    if (chunk.filters.size() != 1 || !chunk.has(ChunkFilterType::kBlosc)) continue;
    const auto flags = std::to_integer<uint32_t>(chunk.stored[2]);
    if ((flags & 2) == 0) {
      blosc.insert({flags >> 5, flags & 5, std::to_integer<uint32_t>(chunk.stored[3])});
    }
  }
  for (uint8_t type = 0; type <= static_cast<uint8_t>(ChunkFilterType::kShuffle); ++type) {
    EXPECT_GT(filters[static_cast<ChunkFilterType>(type)], 4) << int{type};
  }
  for (const uint32_t compressor : {0U, 1U, 3U, 4U}) {
    for (const uint32_t shuffle : {0U, 1U, 4U}) {
      for (const uint32_t width : {1U, 2U, 3U, 4U, 8U, 16U, 17U}) {
        EXPECT_TRUE(blosc.contains({compressor, shuffle, width}))
            << compressor << " " << shuffle << " " << width;
      }
    }
  }
}

TEST(ChunkGolden, DecodesToWhatWasWritten) {
  ChunkScratch scratch;
  Buffer unsized;
  for (const GoldenChunk& chunk : golden_chunks()) {
    SCOPED_TRACE(chunk.name);
    const ChunkPipeline pipeline(chunk.filters);
    pipeline.decode_unsized(chunk.stored, 0, kMost, unsized, scratch);
    EXPECT_LE(unsized.size(), pipeline.most_decoded_bytes(chunk.stored.size()));
    if (chunk.strings) {
      const Strings strings = read_strings(unsized.span(), chunk.offsets.size());
      EXPECT_EQ(strings.characters, chunk.cells);
      EXPECT_EQ(strings.offsets, chunk.offsets);
      continue;
    }
    EXPECT_TRUE(same(unsized.span(), chunk.cells));
    EXPECT_EQ(decode(pipeline, chunk.stored, chunk.cells.size(), scratch), chunk.cells);
    EXPECT_THROW(decode(pipeline, chunk.stored, chunk.cells.size() + 1, scratch), CorruptData);
    if (!chunk.cells.empty()) {
      EXPECT_THROW(decode(pipeline, chunk.stored, chunk.cells.size() - 1, scratch), CorruptData);
    }
  }
}

TEST(ChunkGolden, PartsAreTheCells) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  ChunkScratch scratch;
  size_t shuffled = 0;
  for (const GoldenChunk& chunk : golden_chunks()) {
    if (chunk.strings) continue;
    SCOPED_TRACE(chunk.name);
    const ChunkPipeline pipeline(chunk.filters);
    const uint64_t size = chunk.cells.size();
    const uint32_t own_width = chunk.has(ChunkFilterType::kShuffle) ? chunk.filters[0].element_bytes
                               : chunk.has(ChunkFilterType::kBlosc) && chunk.filters.size() == 1
                                   ? std::to_integer<uint32_t>(chunk.stored[3])
                                   : 4;
    for (const uint32_t width : {own_width, 1U, 2U, 5U, 8U}) {
      const uint64_t cells = size / width;
      for (int range = 0; range < 4; ++range) {
        uint64_t begin = range == 0 ? 0 : random() % (cells + 1);
        uint64_t end = range == 0 ? cells : random() % (cells + 1);
        if (begin > end) std::swap(begin, end);
        const Bytes got = join_parts(pipeline, chunk.stored, size, width, begin * width,
                                     end * width, scratch, &shuffled);
        const auto expected = std::span(chunk.cells).subspan(begin * width, (end - begin) * width);
        ASSERT_TRUE(same(got, expected)) << width << " bytes: " << begin << " to " << end;
      }
    }
    if (size > 0) {
      EXPECT_THROW(join_parts(pipeline, chunk.stored, size + 1, 1, 0, 1, scratch), CorruptData);
    }
  }
  EXPECT_GT(shuffled, 1000U);
}

TEST(ChunkGolden, TruncatedAnywhereIsCorruptData) {
  ChunkScratch scratch;
  Buffer unsized;
  for (const GoldenChunk& chunk : golden_chunks()) {
    SCOPED_TRACE(chunk.name);
    const ChunkPipeline pipeline(chunk.filters);
    // Long chunks have the same filters as short ones, so test fewer lengths.
    const size_t step = test_step(1 + chunk.stored.size() / 300);
    for (size_t length = 0; length < chunk.stored.size(); length += step) {
      // A copy of the exact length, so that the sanitizer sees a read beyond it.
      const Bytes cut(chunk.stored.begin(), chunk.stored.begin() + static_cast<ptrdiff_t>(length));
      if (chunk.strings) {
        EXPECT_THROW(
            {
              pipeline.decode_unsized(cut, 0, kMost, unsized, scratch);
              read_strings(unsized.span(), chunk.offsets.size());
            },
            CorruptData)
            << length;
        continue;
      }
      EXPECT_THROW(decode(pipeline, cut, chunk.cells.size(), scratch), CorruptData) << length;
      if (!chunk.cells.empty()) {
        EXPECT_THROW(join_parts(pipeline, cut, chunk.cells.size(), 1, 0, 1, scratch), CorruptData)
            << length;
      }
      // Frames and members can end here, so that the rest is a shorter chunk.
      try {
        pipeline.decode_unsized(cut, 0, kMost, unsized, scratch);
        EXPECT_LT(unsized.size(), chunk.cells.size()) << length;
      } catch (const CorruptData&) {
      }
    }
  }
}

TEST(ChunkGolden, FlippedBytesNeverCrash) {
  ChunkScratch scratch;
  for (const GoldenChunk& chunk : golden_chunks()) {
    if (chunk.strings) continue;
    SCOPED_TRACE(chunk.name);
    const ChunkPipeline pipeline(chunk.filters);
    const bool checksummed =
        !chunk.filters.empty() && chunk.filters.back().type == ChunkFilterType::kCrc32c;
    const size_t size = chunk.cells.size();
    Bytes damaged = chunk.stored;
    const size_t step = test_step(1 + chunk.stored.size() / (size > 20000 ? 15 : 60));
    for (size_t at = 0; at < damaged.size(); at += at < 32 ? 1 : step) {
      for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
        damaged[at] ^= std::byte(mask);
        bool thrown = false;
        Bytes cells;
        try {
          cells = decode(pipeline, damaged, size, scratch);
        } catch (const CorruptData&) {
          thrown = true;
        } catch (const Unsupported&) {
          thrown = true;
        }
        EXPECT_TRUE(thrown || !checksummed) << "byte " << at;
        if (!thrown && size > 0) {
          EXPECT_EQ(join_parts(pipeline, damaged, size, 1, 0, size, scratch), cells) << at;
        }
        damaged[at] ^= std::byte(mask);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::codec
