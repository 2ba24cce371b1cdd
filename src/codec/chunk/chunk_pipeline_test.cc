#include "codec/chunk/chunk_pipeline.h"

#include <gtest/gtest.h>
#include <lz4.h>
#include <penstock/error.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <limits>
#include <random>

#include "base/testing/test_seed.h"
#include "codec/testing/golden_chunks.h"
#include "codec/testing/shuffled_cells.h"

namespace penstock::codec {
namespace {

constexpr ChunkFilter kBlosc{ChunkFilterType::kBlosc};
constexpr ChunkFilter kZstd{ChunkFilterType::kZstd};
constexpr ChunkFilter kGzip{ChunkFilterType::kGzip};
constexpr ChunkFilter kZlib{ChunkFilterType::kZlib};
constexpr ChunkFilter kLz4{ChunkFilterType::kLz4};
constexpr ChunkFilter kCrc32c{ChunkFilterType::kCrc32c};

Bytes counts(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::geometric_distribution<int> count(0.6);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(count(random));
  return bytes;
}

Bytes zstd_frame(const Bytes& bytes, bool with_size) {
  Bytes frame(ZSTD_compressBound(bytes.size()));
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, with_size ? 1 : 0);
  const size_t size =
      ZSTD_compress2(context, frame.data(), frame.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size) != 0) throw std::runtime_error("zstd");
  frame.resize(size);
  return frame;
}

Bytes zlib_stream(const Bytes& bytes) {
  uLongf size = compressBound(bytes.size());
  Bytes stream(size);
  compress(reinterpret_cast<Bytef*>(stream.data()), &size,
           reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  stream.resize(size);
  return stream;
}

Bytes joined(const Bytes& a, const Bytes& b) {
  Bytes both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

Bytes decode(const ChunkPipeline& pipeline, const Bytes& stored, size_t size,
             uint32_t skipped = 0) {
  ChunkScratch scratch;
  Bytes out(size);
  pipeline.decode(stored, skipped, out, scratch);
  return out;
}

Bytes decode_unsized(const ChunkPipeline& pipeline, const Bytes& stored, uint32_t skipped = 0,
                     uint64_t most = 64 << 20) {
  ChunkScratch scratch;
  Buffer out;
  pipeline.decode_unsized(stored, skipped, most, out, scratch);
  return {out.span().begin(), out.span().end()};
}

TEST(ChunkPipeline, SaysWhatItIs) {
  EXPECT_EQ(ChunkPipeline().text(), "uncompressed");
  EXPECT_EQ(ChunkPipeline({{ChunkFilterType::kShuffle, 4}, kZlib}).text(), "shuffle, zlib");
  EXPECT_EQ(ChunkPipeline({kBlosc}).text(), "blosc");
}

TEST(ChunkPipeline, BoundsMultiply) {
  EXPECT_EQ(ChunkPipeline().most_decoded_bytes(7), 7U);
  EXPECT_EQ(ChunkPipeline({kLz4, kCrc32c}).most_decoded_bytes(10), 2550U);
  EXPECT_EQ(ChunkPipeline({kZlib, kZstd}).most_decoded_bytes(1), 1032U * 32768U);
  EXPECT_EQ(ChunkPipeline({kBlosc, kZstd, kZstd, kZstd, kZstd}).most_decoded_bytes(1000),
            std::numeric_limits<uint64_t>::max());
}

TEST(ChunkPipeline, NoMoreIsDecodedThanIsAllowed) {
  const Bytes zeros(size_t{20} << 20);
  const Bytes frame = zstd_frame(zeros, false);
  Bytes lz4(4 + static_cast<size_t>(LZ4_compressBound(static_cast<int>(zeros.size()))));
  const auto claimed = static_cast<uint32_t>(zeros.size());
  std::memcpy(lz4.data(), &claimed, sizeof(claimed));
  lz4.resize(
      4 + static_cast<size_t>(LZ4_compress_default(
              reinterpret_cast<const char*>(zeros.data()), reinterpret_cast<char*>(lz4.data()) + 4,
              static_cast<int>(zeros.size()), static_cast<int>(lz4.size() - 4))));
  const std::pair<ChunkPipeline, Bytes> cases[] = {
      {ChunkPipeline({kZstd}), frame},
      {ChunkPipeline({kZstd}), zstd_frame(zeros, true)},
      {ChunkPipeline({kZlib}), zlib_stream(zeros)},
      {ChunkPipeline({kLz4}), lz4},
      {ChunkPipeline({kZlib, kZstd}), zstd_frame(zlib_stream(zeros), false)}};
  for (const auto& [pipeline, stored] : cases) {
    EXPECT_EQ(decode_unsized(pipeline, stored, 0, zeros.size()), zeros) << pipeline.text();
    EXPECT_THROW(decode_unsized(pipeline, stored, 0, zeros.size() - 1), CorruptData)
        << pipeline.text();
  }
  // Between two compressors, too, whether the size of the chunk is known or not.
  const ChunkPipeline twice({kZlib, kZstd});
  ChunkScratch scratch;
  Buffer out;
  EXPECT_THROW(twice.decode_unsized(frame, 0, 1000, out, scratch), CorruptData);
  Bytes cells(1000);
  EXPECT_THROW(twice.decode(frame, 0, cells, scratch), CorruptData);
  for (const Buffer& each : scratch.data) EXPECT_LT(each.size(), zeros.size() / 2);
}

TEST(ChunkPipeline, FramesMaySayTheirSizeOrNot) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  const ChunkPipeline pipeline({kZstd});
  for (const size_t size : {0U, 1U, 5000U, 70'000U, 400'000U}) {
    for (const int frames : {1, 2, 3}) {
      Bytes cells;
      Bytes stored;
      for (int frame = 0; frame < frames; ++frame) {
        const Bytes more = counts(size, random());
        cells = joined(cells, more);
        stored = joined(stored, zstd_frame(more, random() % 2 == 0));
      }
      EXPECT_EQ(decode(pipeline, stored, cells.size()), cells);
      EXPECT_EQ(decode_unsized(pipeline, stored), cells);
    }
  }
  // Almost nothing makes much more than is trusted at first.
  const Bytes zeros(size_t{20} << 20);
  for (const bool with_size : {false, true}) {
    EXPECT_EQ(decode_unsized(pipeline, zstd_frame(zeros, with_size)), zeros);
  }
  EXPECT_EQ(decode_unsized(ChunkPipeline({kZlib}), zlib_stream(zeros)), zeros);
}

TEST(ChunkPipeline, SkippedFiltersWereNotApplied) {
  const Bytes cells = counts(4000, 3);
  const ChunkPipeline pipeline({{ChunkFilterType::kShuffle, 4}, kZlib});
  const Bytes planes = shuffle(cells, 4);
  const Bytes both = zlib_stream(planes);
  const std::pair<uint32_t, Bytes> cases[] = {
      {0, both}, {1, zlib_stream(cells)}, {2, planes}, {3, cells}};
  ChunkScratch scratch;
  for (const auto& [skipped_filters, stored] : cases) {
    const uint32_t skipped = skipped_filters;  // clang 14 captures no part of a pair
    EXPECT_EQ(decode(pipeline, stored, cells.size(), skipped), cells) << skipped;
    EXPECT_EQ(decode_unsized(pipeline, stored, skipped), cells) << skipped;
    size_t done = 0;
    pipeline.decode_parts(
        stored, skipped, cells.size(), 4, 0, cells.size(), scratch,
        [&](uint64_t first, const CellBytes& piece) {
          EXPECT_EQ(first, done);
          EXPECT_EQ(piece.shuffled, (skipped & 1) == 0);
          const auto& expected = piece.shuffled ? planes : cells;
          EXPECT_TRUE(std::equal(piece.bytes.begin(), piece.bytes.end(), expected.begin()));
          done += piece.bytes.size();
        });
    EXPECT_EQ(done, cells.size());
    if (skipped > 0) {
      EXPECT_THROW(decode(pipeline, cells, cells.size() + 1, skipped), CorruptData);
    }
  }
}

TEST(ChunkPipeline, ShuffleKeepsWhatIsNoWholeElement) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  for (const uint32_t width : {1U, 2U, 3U, 4U, 8U, 17U}) {
    for (const size_t size : {0U, 1U, 16U, 1003U, 70'001U}) {
      const Bytes cells = counts(size, random());
      const Bytes stored = zlib_stream(shuffle(cells, width));
      const ChunkPipeline pipeline({{ChunkFilterType::kShuffle, width}, kZlib});
      EXPECT_EQ(decode(pipeline, stored, size), cells);
      EXPECT_EQ(decode_unsized(pipeline, stored), cells);
      ChunkScratch scratch;
      const uint64_t end = size / width * width;
      const auto expected = std::span(cells).first(end);
      EXPECT_EQ(join_parts(pipeline, stored, size, width, 0, end, scratch),
                Bytes(expected.begin(), expected.end()));
    }
  }
  EXPECT_THROW(decode(ChunkPipeline({{ChunkFilterType::kShuffle, 0}}), Bytes(4), 4), CorruptData);
}

TEST(ChunkPipeline, PiecesFitACache) {
  const Bytes cells = counts(3'000'000, 5);
  ChunkScratch scratch;
  const std::pair<ChunkPipeline, Bytes> cases[] = {
      {ChunkPipeline(), cells},
      {ChunkPipeline({kZstd}), zstd_frame(cells, true)},
      {ChunkPipeline({{ChunkFilterType::kShuffle, 4}, kZstd}),
       zstd_frame(shuffle(cells, 4), false)}};
  for (const auto& [pipeline, stored] : cases) {
    size_t pieces = 0;
    pipeline.decode_parts(stored, 0, cells.size(), 4, 400, 2'000'400, scratch,
                          [&](uint64_t, const CellBytes& piece) {
                            EXPECT_LE(piece.bytes.size(), 65536U);
                            ++pieces;
                          });
    EXPECT_EQ(pieces, 31U);
    const Bytes got = join_parts(pipeline, stored, cells.size(), 4, 400, 2'000'400, scratch);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), cells.begin() + 400));
  }
}

TEST(ChunkPipeline, BadRangesAreDefects) {
  ChunkScratch scratch;
  const Bytes stored(40);
  const auto parts = [&](uint32_t width, uint64_t begin, uint64_t end) {
    join_parts(ChunkPipeline(), stored, stored.size(), width, begin, end, scratch);
  };
  EXPECT_THROW(parts(0, 0, 40), Internal);
  EXPECT_THROW(parts(4, 0, 44), Internal);
  EXPECT_THROW(parts(4, 8, 4), Internal);
  EXPECT_THROW(parts(4, 2, 8), Internal);
  EXPECT_THROW(parts(4, 4, 10), Internal);
  parts(4, 40, 40);
}

TEST(ChunkPipeline, SizesThatCannotBeAreRefusedFirst) {
  // Claims of gigabytes in a few bytes: nothing may be allocated for them.
  const Bytes lz4{std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0}};
  EXPECT_THROW(decode_unsized(ChunkPipeline({kLz4}), lz4), CorruptData);
  ChunkScratch scratch;
  const Bytes nothing;
  for (const ChunkFilter& filter : {kZstd, kGzip, kZlib, kLz4, kBlosc, kCrc32c}) {
    EXPECT_THROW(decode_unsized(ChunkPipeline({filter}), nothing), CorruptData);
    EXPECT_THROW(
        join_parts(ChunkPipeline({filter}), Bytes(20), uint64_t{1} << 50, 1, 0, 1, scratch),
        CorruptData);
  }
}

TEST(ChunkPipeline, NothingFollowsAStream) {
  const Bytes cells = counts(900, 6);
  const Bytes more(1);
  EXPECT_THROW(decode(ChunkPipeline({kZlib}), joined(zlib_stream(cells), more), 900), CorruptData);
  EXPECT_THROW(decode_unsized(ChunkPipeline({kZlib}), joined(zlib_stream(cells), more)),
               CorruptData);
  EXPECT_THROW(decode_unsized(ChunkPipeline({kZstd}), joined(zstd_frame(cells, true), more)),
               CorruptData);
}

}  // namespace
}  // namespace penstock::codec
