#include "codec/tile/filter_pipeline.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <functional>
#include <string>

// Cases that the golden tiles do not have: options, refusals, hostile sizes. Tiles are written by
// hand.

namespace penstock::codec {
namespace {

using Bytes = std::vector<std::byte>;

class Writer {
 public:
  template <typename T>
  Writer& put(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  Writer& text(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Writer& append(const Bytes& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

Bytes tile_of_one_chunk(uint32_t original, const Bytes& metadata, const Bytes& data) {
  return Writer()
      .put<uint64_t>(1)
      .put(original)
      .put(static_cast<uint32_t>(data.size()))
      .put(static_cast<uint32_t>(metadata.size()))
      .append(metadata)
      .append(data)
      .bytes();
}

FilterPipeline pipeline_of(FilterType type) {
  FilterConfig filter;
  filter.type = type;
  return FilterPipeline({filter}, 65536);
}

FilterPipeline parse(const Bytes& bytes) {
  ByteReader reader(bytes);
  return FilterPipeline::parse(reader, 22);
}

Bytes one_filter(uint8_t code, const Bytes& options) {
  return Writer()
      .put<uint32_t>(65536)
      .put<uint32_t>(1)
      .put(code)
      .put(static_cast<uint32_t>(options.size()))
      .append(options)
      .bytes();
}

template <typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(ParsePipeline, Options) {
  const auto scale = Writer().put(0.25).put(-3.0).put<uint64_t>(2).bytes();
  const FilterConfig parsed = parse(one_filter(15, scale)).filters().at(0);
  EXPECT_EQ(parsed.type, FilterType::kScaleFloat);
  EXPECT_EQ(parsed.scale, 0.25);
  EXPECT_EQ(parsed.offset, -3.0);
  EXPECT_EQ(parsed.byte_width, 2U);

  const auto zstd = Writer().put<uint8_t>(2).put<int32_t>(9).bytes();
  EXPECT_EQ(parse(one_filter(2, zstd)).filters().at(0).compression_level, 9);

  // Delta with and without the reinterpreting type.
  const auto old_delta = Writer().put<uint8_t>(6).put<int32_t>(-1).bytes();
  EXPECT_EQ(parse(one_filter(6, old_delta)).filters().at(0).reinterpret_type, DataType::kAny);
  const auto delta = Writer().put<uint8_t>(19).put<int32_t>(-1).put<uint8_t>(1).bytes();
  EXPECT_EQ(parse(one_filter(19, delta)).filters().at(0).reinterpret_type, DataType::kInt64);
}

TEST(ParsePipeline, Refusals) {
  EXPECT_THROW(parse(one_filter(20, {})), Unsupported);
  EXPECT_THROW(parse(one_filter(9, Bytes(1))), CorruptData);
  const auto width3 = Writer().put(1.0).put(0.0).put<uint64_t>(3).bytes();
  EXPECT_THROW(parse(one_filter(15, width3)), CorruptData);
  const auto bad_type = Writer().put<uint8_t>(19).put<int32_t>(-1).put<uint8_t>(99).bytes();
  EXPECT_THROW(parse(one_filter(19, bad_type)), CorruptData);
  EXPECT_THROW(parse(Writer().put<uint32_t>(65536).put<uint32_t>(~0U).bytes()), CorruptData);
  // A WebP attribute does not prevent reading the other columns.
  EXPECT_EQ(parse(one_filter(18, Bytes(15))).filters().at(0).type, FilterType::kWebp);
}

TEST(FilterPipeline, UnsupportedFiltersSaySo) {
  const Bytes tile = tile_of_one_chunk(4, {}, Bytes(4));
  DecodeScratch scratch;
  Bytes out(4);
  const auto message = [&](FilterType type) {
    return message_of([&] { pipeline_of(type).decode(tile, DataType::kUInt8, 22, out, scratch); });
  };
  EXPECT_THROW(pipeline_of(FilterType::kWebp).decode(tile, DataType::kUInt8, 22, out, scratch),
               Unsupported);
  EXPECT_NE(message(FilterType::kWebp).find("WebP"), std::string::npos);
  EXPECT_NE(message(FilterType::kAes256Gcm).find("AES-256-GCM"), std::string::npos);
}

TEST(FilterPipeline, WebpWithinAChainSaysSoBeforeAnyCells) {
  const Bytes tile = tile_of_one_chunk(4, {}, Bytes(4));
  DecodeScratch scratch;
  for (const size_t place : {0U, 1U, 2U}) {
    std::vector<FilterConfig> filters(3);
    for (FilterConfig& filter : filters) filter.type = FilterType::kNone;
    filters[place].type = FilterType::kWebp;
    const FilterPipeline pipeline(filters, 65536);
    Bytes out(4, std::byte{7});
    const std::string said =
        message_of([&] { pipeline.decode(tile, DataType::kUInt8, 22, out, scratch); });
    EXPECT_NE(said.find("WebP"), std::string::npos) << said;
    EXPECT_NE(said.find("write a copy"), std::string::npos) << said;
    EXPECT_EQ(out, Bytes(4, std::byte{7}));
    EXPECT_THROW(
        pipeline.decode_chunk_planes(split_chunks(tile).at(0), DataType::kUInt8, 22, scratch),
        Unsupported);
  }
}

TEST(FilterPipeline, EmptyTiles) {
  DecodeScratch scratch;
  const FilterPipeline none;
  const Bytes no_chunks = Writer().put<uint64_t>(0).bytes();
  EXPECT_EQ(none.decoded_bytes(no_chunks), 0U);
  EXPECT_TRUE(split_chunks(no_chunks).empty());
  none.decode(no_chunks, DataType::kInt64, 22, {}, scratch);
  none.decode(tile_of_one_chunk(0, {}, {}), DataType::kInt64, 22, {}, scratch);
  EXPECT_THROW(none.decoded_bytes({}), CorruptData);

  Buffer characters;
  std::vector<uint64_t> offsets(3);
  const auto rle = pipeline_of(FilterType::kRle);
  rle.decode_strings(no_chunks, DataType::kStringUtf8, 22, characters, offsets, scratch, {});
  EXPECT_TRUE(offsets.empty());
  EXPECT_THROW(rle.decode_strings(no_chunks, DataType::kStringUtf8, 22, characters, offsets,
                                  scratch, {3, 0}),
               CorruptData);
}

TEST(FilterPipeline, BytesAfterTheChunksAreCorrupt) {
  Bytes tile = tile_of_one_chunk(4, {}, Bytes(4));
  tile.push_back({});
  EXPECT_THROW(FilterPipeline().decoded_bytes(tile), CorruptData);
  EXPECT_THROW(split_chunks(tile), CorruptData);
}

TEST(FilterPipeline, MetadataThatNoFilterReadsIsCorrupt) {
  DecodeScratch scratch;
  Bytes out(4);
  EXPECT_THROW(FilterPipeline().decode(tile_of_one_chunk(4, Bytes(1), Bytes(4)), DataType::kUInt8,
                                       22, out, scratch),
               CorruptData);
}

TEST(FilterPipeline, ClaimedSizesAreNotAllocated) {
  // zstd twice: the inner stage claims 4 GiB for a chunk of 4 bytes.
  FilterConfig zstd;
  zstd.type = FilterType::kZstd;
  const FilterPipeline twice({zstd, zstd}, 65536);
  const Bytes metadata =
      Writer().put<uint32_t>(0).put<uint32_t>(1).put<uint32_t>(~0U).put<uint32_t>(4).bytes();
  DecodeScratch scratch;
  Bytes out(4);
  const auto tile = tile_of_one_chunk(4, metadata, Bytes(4));
  EXPECT_NE(message_of([&] {
              twice.decode(tile, DataType::kUInt8, 22, out, scratch);
            }).find("implausible"),
            std::string::npos);
  EXPECT_LT(scratch.data[0].capacity() + scratch.data[1].capacity(), size_t{1} << 20);

  const Bytes chunks = Writer().put<uint64_t>(uint64_t{1} << 60).bytes();
  EXPECT_THROW(split_chunks(chunks), CorruptData);
}

// Found by fuzzing: strings behind gzip, whose part table claims 2 GiB in 4 bytes.
TEST(FilterPipeline, PartsOfStringsAreNotAllocatedOnTheirWord) {
  for (const FilterType type : {FilterType::kGzip, FilterType::kZstd, FilterType::kLz4}) {
    FilterConfig strings, compressor;
    strings.type = FilterType::kDictionary;
    compressor.type = type;
    const FilterPipeline pipeline({strings, compressor}, 65536);
    const Bytes metadata = Writer()
                               .put<uint32_t>(1)
                               .put<uint32_t>(1)
                               .put<uint32_t>(27)
                               .put<uint32_t>(4)
                               .put<uint32_t>(uint32_t{1} << 31)
                               .put<uint32_t>(4)
                               .bytes();
    DecodeScratch scratch;
    Buffer characters;
    std::vector<uint64_t> offsets;
    const uint32_t claimed = 0xfffffffd;
    const auto decode = [&](StringTileSize expected) {
      pipeline.decode_strings(tile_of_one_chunk(claimed, metadata, Bytes(8)), DataType::kStringUtf8,
                              18, characters, offsets, scratch, expected);
    };
    // The fragment claims less than the chunk, or as much.
    EXPECT_THROW(decode({5, 100}), CorruptData);
    EXPECT_NE(message_of([&] { decode({5, claimed}); }).find("implausible"), std::string::npos);
    for (const Buffer& buffer : {std::cref(scratch.data[0]), std::cref(scratch.data[1]),
                                 std::cref(scratch.metadata[0]), std::cref(scratch.metadata[1])}) {
      EXPECT_LT(buffer.capacity(), size_t{1} << 20);
    }
  }
}

// A caller allocates decoded_bytes(), so it must refuse chunks that the filters cannot have made.
TEST(FilterPipeline, ChunksClaimNoMoreThanTheirFiltersCanMake) {
  const auto claim = [](const FilterPipeline& pipeline, uint32_t original, size_t stored) {
    return pipeline.decoded_bytes(tile_of_one_chunk(original, {}, Bytes(stored)));
  };
  EXPECT_EQ(claim(FilterPipeline(), 100, 100), 100U);
  EXPECT_THROW(claim(FilterPipeline(), 101, 100), CorruptData);
  EXPECT_EQ(claim(pipeline_of(FilterType::kGzip), 103200, 100), 103200U);
  EXPECT_THROW(claim(pipeline_of(FilterType::kGzip), 103201, 100), CorruptData);
  EXPECT_THROW(claim(pipeline_of(FilterType::kZstd), ~0U, 64), CorruptData);
  EXPECT_THROW(claim(pipeline_of(FilterType::kByteShuffle), 2, 1), CorruptData);
  // Filters without a bound are refused before their size is computed.
  EXPECT_THROW(pipeline_of(FilterType::kDictionary).expect_readable(), CorruptData);
  EXPECT_THROW(pipeline_of(FilterType::kWebp).expect_readable(), Unsupported);
  EXPECT_THROW(pipeline_of(FilterType::kAes256Gcm).expect_readable(), Unsupported);
  EXPECT_NO_THROW(pipeline_of(FilterType::kZstd).expect_readable());
}

/// uint8 run lengths, uint8 string lengths.
Bytes rle_string_tile(uint32_t characters, const Bytes& runs, uint32_t strings) {
  const Bytes metadata = Writer()
                             .put<uint32_t>(0)
                             .put<uint32_t>(1)
                             .put(characters)
                             .put(static_cast<uint32_t>(runs.size()))
                             .put(strings * 8)
                             .put<uint8_t>(1)
                             .put<uint8_t>(1)
                             .bytes();
  return tile_of_one_chunk(characters, metadata, runs);
}

TEST(FilterPipeline, StringRunsAreCountedBeforeTheyAreWritten) {
  const auto rle = pipeline_of(FilterType::kRle);
  DecodeScratch scratch;
  Buffer characters;
  std::vector<uint64_t> offsets;
  const Bytes runs = Writer().put<uint8_t>(3).put<uint8_t>(2).text("ab").bytes();
  const auto decode = [&](uint32_t size, uint64_t count) {
    rle.decode_strings(rle_string_tile(size, runs, 3), DataType::kStringAscii, 22, characters,
                       offsets, scratch, {count, size});
  };
  decode(6, 3);
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(characters.data()), characters.size()),
            "ababab");
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 2, 4}));
  EXPECT_THROW(decode(6, 2), CorruptData);
  EXPECT_THROW(decode(6, 4), CorruptData);
  EXPECT_THROW(decode(5, 3), CorruptData);
  EXPECT_THROW(decode(8, 3), CorruptData);
}

TEST(FilterPipeline, RunsOfNothingAreBounded) {
  // Empty strings have no characters: only the fragment's count limits their number.
  const Bytes runs = Writer().put<uint8_t>(255).put<uint8_t>(0).bytes();
  DecodeScratch scratch;
  Buffer characters;
  std::vector<uint64_t> offsets;
  EXPECT_NE(message_of([&] {
              pipeline_of(FilterType::kRle)
                  .decode_strings(rle_string_tile(0, runs, 254), DataType::kStringAscii, 22,
                                  characters, offsets, scratch, {254, 0});
            }).find("expected 254"),
            std::string::npos);
  EXPECT_EQ(offsets.capacity(), 0U);
}

TEST(FilterPipeline, DictionaryIdsAreChecked) {
  const auto decode = [](uint8_t id) {
    const Bytes metadata = Writer()
                               .put<uint32_t>(0)
                               .put<uint32_t>(1)
                               .put<uint32_t>(1)
                               .put<uint32_t>(1)
                               .put<uint32_t>(8)
                               .put<uint8_t>(1)
                               .put<uint8_t>(1)
                               .put<uint32_t>(4)
                               .put<uint8_t>(1)
                               .text("a")
                               .put<uint8_t>(1)
                               .text("b")
                               .bytes();
    DecodeScratch scratch;
    Buffer characters;
    std::vector<uint64_t> offsets;
    pipeline_of(FilterType::kDictionary)
        .decode_strings(tile_of_one_chunk(1, metadata, Writer().put(id).bytes()),
                        DataType::kStringAscii, 22, characters, offsets, scratch, {1, 1});
    return static_cast<char>(characters.span()[0]);
  };
  EXPECT_EQ(decode(0), 'a');
  EXPECT_EQ(decode(1), 'b');
  EXPECT_EQ(message_of([&] { decode(2); }), "dictionary id 2 of 2 entries");
}

TEST(FilterPipeline, PartsFillTheData) {
  const Bytes metadata =
      Writer().put<uint32_t>(0).put<uint32_t>(1).put<uint32_t>(3).put<uint32_t>(3).bytes();
  const Bytes run = Writer().put<uint8_t>(7).put<uint16_t>(0x0300).bytes();
  DecodeScratch scratch;
  Bytes out(3);
  const auto rle = pipeline_of(FilterType::kRle);
  rle.decode(tile_of_one_chunk(3, metadata, run), DataType::kUInt8, 22, out, scratch);
  EXPECT_EQ(out, Bytes(3, std::byte{7}));
  Bytes longer = run;
  longer.push_back({});
  EXPECT_THROW(
      rle.decode(tile_of_one_chunk(3, metadata, longer), DataType::kUInt8, 22, out, scratch),
      CorruptData);
}

TEST(FilterPipeline, ScaledInt64GoesThroughFloat32) {
  FilterConfig filter;
  filter.type = FilterType::kScaleFloat;
  filter.byte_width = 8;
  filter.scale = 3.0;
  const Bytes metadata = Writer().put<uint32_t>(1).put<uint32_t>(8).bytes();
  const Bytes data = Writer().put<int64_t>((1 << 24) + 1).bytes();
  DecodeScratch scratch;
  float out = 0;
  FilterPipeline({filter}, 65536)
      .decode(tile_of_one_chunk(4, metadata, data), DataType::kFloat32, 22,
              std::as_writable_bytes(std::span(&out, 1)), scratch);
  EXPECT_EQ(out, 3.0F * 16777216.0F);  // not 50331651, rounded to 50331652
}

TEST(FilterPipeline, StringFiltersStandFirst) {
  FilterConfig zstd, rle;
  zstd.type = FilterType::kZstd;
  rle.type = FilterType::kRle;
  const auto utf8 = DataType::kStringUtf8;
  EXPECT_TRUE(FilterPipeline({rle, zstd}, 1).stores_string_offsets(utf8, true));
  EXPECT_FALSE(FilterPipeline({rle, zstd}, 1).stores_string_offsets(utf8, false));
  EXPECT_FALSE(FilterPipeline({rle, zstd}, 1).stores_string_offsets(DataType::kBlob, true));
  EXPECT_FALSE(FilterPipeline({zstd}, 1).stores_string_offsets(utf8, true));
  EXPECT_TRUE(
      pipeline_of(FilterType::kDictionary).stores_string_offsets(DataType::kStringAscii, true));
}

TEST(FilterPipeline, RleGoesByWholeCells) {
  // Two values of int32 a cell: runs of 8 bytes.
  const Bytes runs = Writer().put<int32_t>(1).put<int32_t>(2).put<uint16_t>(0x0300).bytes();
  const Bytes metadata = Writer()
                             .put<uint32_t>(0)
                             .put<uint32_t>(1)
                             .put<uint32_t>(24)
                             .put(static_cast<uint32_t>(runs.size()))
                             .bytes();
  const Bytes tile = tile_of_one_chunk(24, metadata, runs);
  DecodeScratch scratch;
  std::vector<int32_t> out(6);
  const auto bytes = std::as_writable_bytes(std::span(out));
  const auto rle = pipeline_of(FilterType::kRle);
  rle.decode(tile, DataType::kInt32, 22, bytes, scratch, 8);
  EXPECT_EQ(out, (std::vector<int32_t>{1, 2, 1, 2, 1, 2}));
  EXPECT_THROW(rle.decode(tile, DataType::kInt32, 22, bytes, scratch), CorruptData);
}

TEST(FilterPipeline, DeltasOfFloatsAreCorrupt) {
  DecodeScratch scratch;
  Bytes out(8);
  const Bytes data = Writer().put<uint64_t>(1).put(1.0).bytes();
  const Bytes metadata =
      Writer().put<uint32_t>(0).put<uint32_t>(1).put<uint32_t>(8).put<uint32_t>(16).bytes();
  const auto tile = tile_of_one_chunk(8, metadata, data);
  const auto delta = pipeline_of(FilterType::kDelta);
  EXPECT_THROW(delta.decode(tile, DataType::kFloat64, 22, out, scratch), CorruptData);
  delta.decode(tile, DataType::kInt64, 22, out, scratch);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), data.begin() + 8));
}

TEST(FilterPipeline, DatesPassWindowedFiltersBeforeFormat20) {
  const Bytes cells = Writer().put<int64_t>(5).bytes();
  const Bytes tile = tile_of_one_chunk(8, {}, cells);
  DecodeScratch scratch;
  Bytes out(8);
  for (const auto type : {FilterType::kBitWidthReduction, FilterType::kPositiveDelta}) {
    pipeline_of(type).decode(tile, DataType::kDateTimeNanosecond, 19, out, scratch);
    EXPECT_EQ(out, cells);
    EXPECT_THROW(pipeline_of(type).decode(tile, DataType::kDateTimeNanosecond, 20, out, scratch),
                 CorruptData);
  }
}

}  // namespace
}  // namespace penstock::codec
