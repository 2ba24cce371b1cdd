#include "codec/tile/expansion.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include <limits>
#include <vector>

namespace penstock::codec {
namespace {

constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();

// The bounds of expansion.h hold for the most compressible data.
TEST(Expansion, NothingCompressesBetterThanItsBound) {
  std::vector<char> zeros(size_t{64} << 20);
  std::vector<char> out(size_t{1} << 20);
  uLongf gzip = out.size();
  ASSERT_EQ(compress2(reinterpret_cast<Bytef*>(out.data()), &gzip,
                      reinterpret_cast<const Bytef*>(zeros.data()), zeros.size(), 9),
            Z_OK);
  EXPECT_LE(zeros.size(), most_decoded_bytes(FilterType::kGzip, gzip));
  const size_t zstd = ZSTD_compress(out.data(), out.size(), zeros.data(), zeros.size(), 22);
  ASSERT_FALSE(ZSTD_isError(zstd));
  EXPECT_LE(zeros.size(), most_decoded_bytes(FilterType::kZstd, zstd));
  const int lz4 = LZ4_compress_default(zeros.data(), out.data(), static_cast<int>(zeros.size()),
                                       static_cast<int>(out.size()));
  ASSERT_GT(lz4, 0);
  EXPECT_LE(zeros.size(), most_decoded_bytes(FilterType::kLz4, static_cast<uint64_t>(lz4)));
  auto bzip2 = static_cast<unsigned>(out.size());
  ASSERT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &bzip2, zeros.data(),
                                     static_cast<unsigned>(zeros.size()), 9, 0, 0),
            BZ_OK);
  EXPECT_LE(zeros.size(), most_decoded_bytes(FilterType::kBzip2, bzip2));
}

TEST(Expansion, FiltersMultiply) {
  FilterConfig gzip, zstd, shuffle;
  gzip.type = FilterType::kGzip;
  zstd.type = FilterType::kZstd;
  shuffle.type = FilterType::kByteShuffle;
  const std::vector<FilterConfig> chain = {shuffle, gzip, zstd};
  EXPECT_EQ(most_decoded_bytes(chain, 10), uint64_t{10} * 1032 * 32768);
  EXPECT_EQ(most_decoded_bytes(chain, uint64_t{1} << 60), kNoBound);
  EXPECT_EQ(most_decoded_bytes(std::span<const FilterConfig>(), 10), 10U);
  EXPECT_EQ(most_decoded_bytes(FilterType::kDictionary, 1), kNoBound);
}

}  // namespace
}  // namespace penstock::codec
