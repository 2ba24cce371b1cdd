#include <gtest/gtest.h>
#include <penstock/error.h>

#include <array>
#include <map>

#include "base/testing/test_seed.h"
#include "codec/testing/golden_file.h"
#include "codec/tile/filter_pipeline.h"

// Tests every filter and many chains with tiles that TileDB wrote, and with the same tiles damaged.

namespace penstock::codec {
namespace {

struct Decoded {
  Buffer cells;
  std::vector<uint64_t> offsets;
};

FilterPipeline parse(const GoldenTile& tile) {
  ByteReader reader(tile.pipeline);
  auto pipeline = FilterPipeline::parse(reader, tile.format_version);
  EXPECT_TRUE(reader.empty());
  return pipeline;
}

void decode(const FilterPipeline& pipeline, const GoldenTile& tile,
            std::span<const std::byte> stored, DecodeScratch& scratch, Decoded& decoded) {
  if (tile.strings) {
    pipeline.decode_strings(stored, tile.type, tile.format_version, decoded.cells, decoded.offsets,
                            scratch, {tile.offsets.size(), tile.cells.size()});
    return;
  }
  const uint64_t bytes = pipeline.decoded_bytes(stored);
  // As in readers, the fragment gives the number of cells.
  if (bytes != tile.cells.size()) throw CorruptData("another size");
  decoded.cells.resize_discard(bytes);
  pipeline.decode(stored, tile.type, tile.format_version, decoded.cells.span(), scratch,
                  tile.cell_bytes);
}

bool same(const GoldenTile& tile, const Decoded& decoded) {
  return std::equal(tile.cells.begin(), tile.cells.end(), decoded.cells.span().begin(),
                    decoded.cells.span().end()) &&
         (!tile.strings || tile.offsets == decoded.offsets);
}

bool is_checksum(FilterType type) {
  return type == FilterType::kChecksumMd5 || type == FilterType::kChecksumSha256;
}

class Golden : public testing::Test {
 protected:
  static const std::vector<GoldenTile>& tiles() {
    static const std::vector<GoldenTile> all = read_golden_tiles();
    return all;
  }
};

TEST_F(Golden, DecodesToWhatTileDbReads) {
  ASSERT_GT(tiles().size(), 700U);
  DecodeScratch scratch;
  for (const GoldenTile& tile : tiles()) {
    SCOPED_TRACE(tile.name + ", format " + std::to_string(tile.format_version));
    const auto pipeline = parse(tile);
    Decoded decoded;
    try {
      decode(pipeline, tile, tile.stored, scratch, decoded);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    EXPECT_TRUE(same(tile, decoded));
  }
}

TEST_F(Golden, CoversEveryFilter) {
  std::map<FilterType, int> seen;
  for (const GoldenTile& tile : tiles()) {
    const auto pipeline = parse(tile);
    for (const FilterConfig& filter : pipeline.filters()) ++seen[filter.type];
  }
  for (uint8_t code = 0; code <= static_cast<uint8_t>(FilterType::kDelta); ++code) {
    const auto type = static_cast<FilterType>(code);
    if (type == FilterType::kAes256Gcm || type == FilterType::kDeprecated ||
        type == FilterType::kWebp) {
      continue;
    }
    EXPECT_GT(seen[type], 5) << name_of(type);
  }
}

TEST_F(Golden, CoversTheFormatsAroundEveryChange) {
  // New in format 20: windowed filters for dates, and types after a float scale.
  for (const uint32_t version : {18U, 19U, 20U, 22U}) {
    int dates = 0;
    int scaled = 0;
    for (const GoldenTile& tile : tiles()) {
      if (tile.format_version != version) continue;
      const auto pipeline = parse(tile);
      const auto& filters = pipeline.filters();
      dates += is_datetime(tile.type) && filters[0].type == FilterType::kBitWidthReduction ? 1 : 0;
      scaled += filters.size() > 1 && filters[0].type == FilterType::kScaleFloat ? 1 : 0;
    }
    EXPECT_GT(dates, 1) << "format " << version;
    EXPECT_GT(scaled, 6) << "format " << version;
  }
}

TEST_F(Golden, ChunkPlanesAreTheCells) {
  DecodeScratch scratch;
  int shuffled = 0;
  for (const GoldenTile& tile : tiles()) {
    if (tile.strings) continue;
    SCOPED_TRACE(tile.name);
    const auto pipeline = parse(tile);
    size_t done = 0;
    for (const Chunk& chunk : split_chunks(tile.stored)) {
      const CellBytes cells =
          pipeline.decode_chunk_planes(chunk, tile.type, tile.format_version, scratch);
      ASSERT_EQ(cells.bytes.size(), chunk.original_bytes);
      ASSERT_LE(done + chunk.original_bytes, tile.cells.size());
      const size_t width = size_of(tile.type);
      const size_t count = cells.bytes.size() / width;
      for (size_t i = 0; i < cells.bytes.size(); ++i) {
        const size_t at = cells.shuffled ? (i % width) * count + i / width : i;
        ASSERT_EQ(cells.bytes[at], tile.cells[done + i]);
      }
      shuffled += cells.shuffled ? 1 : 0;
      done += chunk.original_bytes;
    }
    EXPECT_EQ(done, tile.cells.size());
  }
  EXPECT_GT(shuffled, 10);
}

TEST_F(Golden, TruncatedAnywhereIsCorruptData) {
  DecodeScratch scratch;
  Decoded decoded;
  for (const GoldenTile& tile : tiles()) {
    const auto pipeline = parse(tile);
    // The longest tiles have the same filters as short ones, so test fewer lengths.
    const size_t step = test_step(tile.stored.size() > 2000 ? 97 : 1);
    for (size_t length = 0; length < tile.stored.size(); length += step) {
      EXPECT_THROW(decode(pipeline, tile, std::span(tile.stored).first(length), scratch, decoded),
                   CorruptData)
          << tile.name << " at " << length;
    }
    for (size_t length = 0; length < tile.pipeline.size(); ++length) {
      ByteReader reader(std::span(tile.pipeline).first(length));
      EXPECT_THROW(FilterPipeline::parse(reader, tile.format_version), CorruptData);
    }
  }
}

TEST_F(Golden, FlippedBytesNeverCrash) {
  DecodeScratch scratch;
  Decoded decoded;
  std::array<int, 2> chains{};  // that end with a checksum: of one filter, of several
  for (const GoldenTile& tile : tiles()) {
    const auto pipeline = parse(tile);
    // A checksum that was written last covers all stored bytes.
    const bool checksummed =
        !pipeline.filters().empty() && is_checksum(pipeline.filters().back().type);
    if (checksummed) ++chains[pipeline.filters().size() == 1 ? 0 : 1];
    Bytes damaged = tile.stored;
    const size_t step = test_step(1 + tile.stored.size() / 150);
    for (size_t at = 0; at < damaged.size(); at += step) {
      for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
        damaged[at] ^= std::byte(mask);
        bool thrown = false;
        try {
          decode(pipeline, tile, damaged, scratch, decoded);
        } catch (const CorruptData&) {
          thrown = true;
        }
        EXPECT_TRUE(thrown || !checksummed) << tile.name << " at " << at;
        damaged[at] ^= std::byte(mask);
      }
    }
  }
  EXPECT_GT(chains[0], 10);
  EXPECT_GT(chains[1], 10);
}

}  // namespace
}  // namespace penstock::codec
