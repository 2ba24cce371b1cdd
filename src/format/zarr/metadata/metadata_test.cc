#include <gtest/gtest.h>
#include <penstock/error.h>

#include <array>
#include <cstring>
#include <functional>

#include "format/zarr/metadata/array_metadata.h"
#include "format/zarr/metadata/fill_value.h"
#include "format/zarr/metadata/json_text.h"

namespace penstock::format::zarr {
namespace {

using chunked::StringForm;
using nlohmann::json;

json v2_document() {
  return parse_json(R"({"zarr_format": 2, "shape": [10], "chunks": [4], "dtype": "<i4",
      "compressor": null, "filters": null, "order": "C", "fill_value": 0})");
}

json v3_document() {
  return parse_json(R"({"zarr_format": 3, "node_type": "array", "shape": [10],
      "data_type": "int32", "fill_value": 0,
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
      "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
      "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]})");
}

json shards(json chunk_shape) {
  json codec = parse_json(R"({"name": "sharding_indexed", "configuration": {
      "codecs": ["bytes"], "index_codecs": [
        {"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]}})");
  codec["configuration"]["codecs"][0] = {{"name", "bytes"},
                                         {"configuration", {{"endian", "little"}}}};
  codec["configuration"]["chunk_shape"] = std::move(chunk_shape);
  return codec;
}

ArrayMetadata v2(const json& changes) {
  json document = v2_document();
  document.update(changes);
  return parse_v2_array(parse_json(document.dump()), json::object(), "the/array");
}

ArrayMetadata v3(const json& changes) {
  json document = v3_document();
  document.update(changes);
  return parse_v3_array(parse_json(document.dump()), "the/array");
}

/// Class and message of what is thrown.
std::string thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const CorruptData& error) {
    return std::string("CorruptData: ") + error.what();
  } catch (const Unsupported& error) {
    return std::string("Unsupported: ") + error.what();
  }
  return "nothing";
}

template <typename T>
T fill_of(const ArrayMetadata& array) {
  T value;
  EXPECT_EQ(array.info.fill_value.size(), sizeof(T));
  std::memcpy(&value, array.info.fill_value.data(), sizeof(T));
  return value;
}

TEST(ZarrMetadata, WhatIsNotKnownIsNamed) {
  const json grid = {{"name", "rectilinear"}, {"configuration", json::object()}};
  for (const auto& each : std::vector<std::pair<json, std::string>>{
           {{{"chunk_grid", grid}}, "rectilinear"},
           {{{"data_type", "bfloat16"}}, "bfloat16"},
           {{{"codecs", json::array({"bytes", "lzma"})}, {"data_type", "int8"}}, "lzma"},
           {{{"codecs", json::array({"packbits"})}}, "packbits"},
           {{{"codecs", json::array({shards({2}), "zstd"})}}, "zstd"},
           {{{"chunk_key_encoding", {{"name", "fanout"}}}}, "fanout"},
           {{{"storage_transformers", {"cache"}}}, "cache"},
           {{{"new_field", 1}}, "new_field"},
           {{{"zarr_format", 4}}, "zarr_format"}}) {
    const std::string said = thrown([&] { v3(each.first); });
    EXPECT_EQ(said.substr(0, 11), "Unsupported") << said;
    EXPECT_NE(said.find(each.second), std::string::npos) << said;
    EXPECT_NE(said.find("the/array"), std::string::npos) << said;
  }
  EXPECT_EQ(v3({{"new_field", {{"must_understand", false}}}}).info.shape.size(), 1U);
  for (const auto& each : std::vector<std::pair<json, std::string>>{
           {{{"compressor", {{"id", "lzma"}}}}, "lzma"},
           {{{"filters", {{{"id", "fixedscaleoffset"}}}}}, "fixedscaleoffset"},
           {{{"dtype", "<f2"}}, "<f2"},
           {{{"dtype", "<M8[ns]"}}, "<M8[ns]"},
           {{{"dtype", "|O"}}, "|O"},
           {{{"dtype", "<U0"}}, "<U0"},
           {{{"dtype", {{"a", "<f2"}}}}, "a"},
           {{{"dtype", json::array({{"a", "<i4", json::array({2})}})}}, "a"},
           {{{"dtype", json::array({{"a", "|O"}})}}, "a"},
           {{{"dtype", json::array({{"a", "|S9999999"}, {"b", "|S9999999"}})}}, "a"},
           {{{"dtype", json::array()}}, "[]"},
           {{{"dtype", "<U99999999999"}}, "<U99999999999"}}) {
    const std::string said = thrown([&] { v2(each.first); });
    EXPECT_EQ(said.substr(0, 11), "Unsupported") << said;
    EXPECT_NE(said.find(each.second), std::string::npos) << said;
  }
}

TEST(ZarrMetadata, ShapesThatNothingHasAreCorrupt) {
  const uint64_t huge = uint64_t{1} << 62;
  const auto is_corrupt = [](const std::string& said) { return said.starts_with("CorruptData"); };
  for (const json& changes :
       std::vector<json>{{{"shape", {huge, huge}}, {"chunks", {huge, huge}}},
                         {{"shape", {huge}}, {"chunks", {1}}},
                         {{"shape", {huge}}, {"chunks", {huge}}},
                         {{"shape", {10}}, {"chunks", {0}}},
                         {{"shape", {10}}, {"chunks", {4, 4}}},
                         {{"shape", {-1}}},
                         {{"shape", {1.5}}},
                         {{"shape", 10}},
                         {{"shape", {UINT64_MAX}}},
                         {{"shape", std::vector<int>(65, 1)}, {"chunks", std::vector<int>(65, 1)}},
                         {{"fill_value", 1.5}},
                         {{"fill_value", uint64_t{1} << 31}},
                         {{"fill_value", "text"}},
                         {{"fill_value", {1}}},
                         {{"dimension_separator", "-"}},
                         {{"order", "K"}},
                         {{"compressor", "zstd"}},
                         {{"filters", {{{"id", "shuffle"}, {"elementsize", 0}}}}},
                         {{"filters", {{{"id", "vlen-utf8"}}}}}}) {
    const std::string said = thrown([&] { v2(changes); });
    EXPECT_TRUE(is_corrupt(said)) << said << changes;
  }
  for (const json& changes : std::vector<json>{
           {{"codecs", json::array({shards({3})})}},
           {{"codecs", json::array({shards({0})})}},
           {{"codecs", json::array({shards({1, 4})})}},
           {{"codecs", json::array()}},
           {{"codecs", json::array({{{"name", "bytes"}}})}},
           {{"codecs", json::array({"vlen-utf8"})}},
           {{"data_type",
             {{"name", "fixed_length_utf32"}, {"configuration", {{"length_bytes", 6}}}}}},
           {{"data_type", 4}},
           {{"fill_value", "0x100000000"}},
           {{"chunk_grid", nullptr}}}) {
    const std::string said = thrown([&] { v3(changes); });
    EXPECT_TRUE(is_corrupt(said)) << said << changes;
  }
  EXPECT_EQ(v2({{"shape", {0}}, {"chunks", {0}}}).info.chunk_count(), 0U);
}

TEST(ZarrMetadata, ShardsHaveTheChunksOfTheArray) {
  const ArrayMetadata array =
      v3({{"shape", {100, 7}},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", {40, 6}}}}}},
          {"codecs", json::array({shards({10, 3})})}});
  EXPECT_EQ(array.info.chunk_shape, (std::vector<uint64_t>{10, 3}));
  EXPECT_EQ(array.info.chunk_count(), 30U);
  EXPECT_EQ(array.sharding->shard_shape, (std::vector<uint64_t>{40, 6}));
  EXPECT_EQ(array.sharding->index.chunks, 8U);
  EXPECT_TRUE(array.sharding->index.checksum);
  EXPECT_FALSE(array.sharding->index.at_start);
  EXPECT_EQ(array.info.layout, "zarr v3, chunks of 10 x 3 in shards of 40 x 6, uncompressed");
}

TEST(ZarrMetadata, KeysOfChunks) {
  const std::vector<uint64_t> position{3, 0, 12};
  EXPECT_EQ((ChunkKeys{true, '/'}.key_of(position)), "c/3/0/12");
  EXPECT_EQ((ChunkKeys{true, '.'}.key_of(position)), "c.3.0.12");
  EXPECT_EQ((ChunkKeys{false, '.'}.key_of(position)), "3.0.12");
  EXPECT_EQ((ChunkKeys{true, '/'}.key_of({})), "c");
  EXPECT_EQ((ChunkKeys{false, '/'}.key_of({})), "0");
}

TEST(ZarrMetadata, RecordsHaveFields) {
  const json dtype = json::array({{"index", "|S3"}, {"count", ">i8"}, {"name", "<U2"}});
  const auto info = v2({{"dtype", dtype}, {"fill_value", nullptr}}).info;
  EXPECT_EQ(info.type, DataType::kBlob);
  EXPECT_EQ(info.cell_bytes, 19U);
  ASSERT_EQ(info.fields.size(), 3U);
  EXPECT_EQ(info.fields[0].strings, chunked::StringForm::kFixedBytes);
  EXPECT_EQ(info.fields[1].name, "count");
  EXPECT_EQ(info.fields[1].type, DataType::kInt64);
  EXPECT_TRUE(info.fields[1].big_endian);
  EXPECT_EQ(info.fields[2].offset, 11U);
  EXPECT_EQ(info.fields[2].bytes, 8U);
  const json small = json::array({{"a", "|i1"}, {"b", "|S2"}});
  using Bytes = std::array<char, 3>;
  const auto filled = fill_of<Bytes>(v2({{"dtype", small}, {"fill_value", "AWFi"}}));
  EXPECT_EQ(filled, (Bytes{1, 'a', 'b'}));
  EXPECT_NE(thrown([&] { v2({{"dtype", small}, {"fill_value", "AWE="}}); }), "nothing");
  EXPECT_NE(thrown([&] { v2({{"dtype", small}, {"fill_value", 5}}); }), "nothing");
}

TEST(ZarrMetadata, FillValues) {
  EXPECT_EQ(fill_of<int32_t>(v2({{"fill_value", -3}})), -3);
  EXPECT_EQ(fill_of<int32_t>(v2({{"fill_value", nullptr}})), 0);
  EXPECT_EQ(fill_of<int32_t>(v2({{"fill_value", 3.0}})), 3);
  EXPECT_EQ(fill_of<uint32_t>(v3({{"data_type", "float32"}, {"fill_value", "0x7fc00001"}})),
            0x7FC00001U);
  EXPECT_EQ(fill_of<double>(v3({{"data_type", "float64"}, {"fill_value", "-Infinity"}})),
            -std::numeric_limits<double>::infinity());
  EXPECT_EQ(fill_of<double>(v3({{"data_type", "float64"}, {"fill_value", 2}})), 2.0);
  EXPECT_NE(thrown([&] { v3({{"data_type", "float32"}, {"fill_value", 1e300}}); }), "nothing");
  EXPECT_NE(thrown([&] { v3({{"data_type", "bool"}, {"fill_value", 2}}); }), "nothing");
  const auto bytes = v2({{"dtype", "|S4"}, {"fill_value", "YWI="}});
  EXPECT_EQ(bytes.info.fill_text, "ab");
  EXPECT_EQ(bytes.info.fill_value.size(), 4U);
  EXPECT_EQ(v2({{"dtype", "<U4"}, {"fill_value", "né"}}).info.fill_text, "né");
  EXPECT_NE(thrown([&] { v2({{"dtype", "<U1"}, {"fill_value", "né"}}); }), "nothing");
  EXPECT_NE(thrown([&] { v2({{"dtype", "|S4"}, {"fill_value", "né"}}); }), "nothing");
  EXPECT_EQ(base64_bytes("Zm9vYmE="), "fooba");
  EXPECT_EQ(base64_bytes(""), "");
  EXPECT_EQ(base64_bytes("Zm9"), std::nullopt);
  EXPECT_EQ(base64_bytes("Zm=v"), std::nullopt);
}

TEST(ZarrJson, BareWordsOfPythonAreText) {
  const json value =
      parse_json(R"({"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" NaN", "d": -1})");
  EXPECT_EQ(value["a"], "NaN");
  EXPECT_EQ(value["b"], (json{"-Infinity", "Infinity"}));
  EXPECT_EQ(value["c"], "NaN \" NaN");
  EXPECT_EQ(value["d"], -1);
}

TEST(ZarrJson, DepthIsBounded) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(parse_json(nested(kMostJsonDepth)).is_array());
  EXPECT_THROW(parse_json(nested(kMostJsonDepth + 1)), CorruptData);
  EXPECT_THROW(parse_json(nested(1'000'000)), CorruptData);
  for (const char* text : {"", "{", "{\"a\": Nan}", "nan", "[1,]", "\"\xff\"", "{} {}"}) {
    EXPECT_THROW(parse_json(text), CorruptData) << text;
  }
}

}  // namespace
}  // namespace penstock::format::zarr
