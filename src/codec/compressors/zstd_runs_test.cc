#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "codec/compressors/zstd.h"
#include "codec/zstd/run_decoder.h"

// Compares runs decoded from Zstandard frames with libzstd.

namespace penstock::codec {
namespace {

using Bytes = std::vector<std::byte>;

Bytes compress(const std::vector<uint64_t>& cells, int level) {
  const size_t bytes = cells.size() * sizeof(uint64_t);
  Bytes frame(ZSTD_compressBound(bytes));
  const size_t size = ZSTD_compress(frame.data(), frame.size(), cells.data(), bytes, level);
  EXPECT_FALSE(ZSTD_isError(size));
  frame.resize(size);
  return frame;
}

std::vector<uint64_t> expand(const std::vector<CellRun>& runs) {
  std::vector<uint64_t> cells;
  for (const CellRun& run : runs) cells.insert(cells.end(), run.count, run.value);
  return cells;
}

/// Row ids of a sparse matrix: they ascend, each for some cells.
std::vector<uint64_t> random_rows(std::mt19937_64& random, size_t count) {
  const uint64_t mean = uint64_t{1} << random() % 9;
  const uint64_t most_step = uint64_t{1} << random() % 20;
  std::vector<uint64_t> cells;
  uint64_t row = random() >> (random() % 60 + 1);
  while (cells.size() < count) {
    const uint64_t length = 1 + random() % (2 * mean);
    cells.insert(cells.end(), std::min<uint64_t>(length, count - cells.size()), row);
    row += 1 + random() % most_step;
  }
  return cells;
}

TEST(ZstdRuns, RowsOfManyShapes) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  zstd::RunDecoder decoder;
  size_t taken = 0;
  for (int round = 0; round < 2000; ++round) {
    const size_t count = 1 + random() % (round % 50 == 0 ? 60'000 : 9'000);
    const auto cells = random_rows(random, count);
    const int level = static_cast<int>(random() % 20) - 3;
    const Bytes frame = compress(cells, level);
    std::vector<CellRun> runs = {{7, 7}};
    if (!decoder.decode(frame, count * 8, runs)) {
      ASSERT_EQ(runs.size(), 1U);
      continue;
    }
    ++taken;
    runs.erase(runs.begin());
    ASSERT_EQ(expand(runs), cells) << "round " << round << ", level " << level;
    for (size_t i = 1; i < runs.size(); ++i) ASSERT_NE(runs[i].value, runs[i - 1].value);
  }
  // Short runs with random steps must be refused.
  EXPECT_GT(taken, 600U);
}

// As in the Census: chunks of 8,192 cells, tens of cells a row, level 9. None is refused.
TEST(ZstdRuns, TakesEveryChunkOfTheCensusLayout) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  zstd::RunDecoder decoder;
  for (int round = 0; round < 300; ++round) {
    uint64_t row = random() % 100'000'000;
    std::vector<uint64_t> cells;
    while (cells.size() < 8192) {
      cells.insert(cells.end(), 20 + random() % 90, row);
      row += 1 + (random() % 10 == 0 ? 1 : 0);
    }
    cells.resize(8192);
    std::vector<CellRun> runs;
    ASSERT_TRUE(decoder.decode(compress(cells, 9), 65536, runs)) << "round " << round;
    ASSERT_EQ(expand(runs), cells);
  }
}

// Every truncation and many flips: refused, or equal to libzstd.
TEST(ZstdRuns, DamagedFrames) {
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  zstd::RunDecoder decoder;
  const auto cells = random_rows(random, 4000);
  const Bytes good = compress(cells, 9);
  std::vector<CellRun> runs;
  for (size_t length = 0; length < good.size(); ++length) {
    const Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_FALSE(decoder.decode(cut, cells.size() * 8, runs)) << length;
  }
  size_t taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bad = good;
    bad[random() % bad.size()] ^= static_cast<std::byte>(1U << random() % 8);
    runs.clear();
    if (!decoder.decode(bad, cells.size() * 8, runs)) continue;
    ++taken;
    std::vector<uint64_t> expected(cells.size());
    ASSERT_TRUE(zstd_decompress(bad, std::as_writable_bytes(std::span(expected))));
    ASSERT_EQ(expand(runs), expected);
  }
  EXPECT_GT(taken, 0U);
}

TEST(ZstdRuns, RefusesWhatIsNotUsual) {
  zstd::RunDecoder decoder;
  std::vector<CellRun> runs;
  const std::vector<uint64_t> cells(1000, 42);
  const size_t bytes = cells.size() * 8;
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  Bytes checked(ZSTD_compressBound(bytes));
  checked.resize(ZSTD_compress2(context, checked.data(), checked.size(), cells.data(), bytes));
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(decoder.decode(checked, bytes, runs));
  const Bytes frame = compress(cells, 3);
  EXPECT_TRUE(decoder.decode(frame, bytes, runs));
  runs.clear();
  EXPECT_FALSE(decoder.decode(frame, bytes - 8, runs));
  EXPECT_FALSE(decoder.decode(frame, bytes + 8, runs));
  Bytes twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  EXPECT_FALSE(decoder.decode(twice, 2 * bytes, runs));
  EXPECT_TRUE(runs.empty());
}

}  // namespace
}  // namespace penstock::codec
