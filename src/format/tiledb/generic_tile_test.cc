#include "format/tiledb/generic_tile.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <zlib.h>

#include <algorithm>
#include <functional>

#include "io/memory_store.h"

namespace penstock::format::tiledb {
namespace {

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

struct Fields {
  uint32_t version = 22;
  uint64_t tile_bytes = 0;
  uint8_t type = 6;
  uint8_t encryption = 0;
  std::string pipeline = raw(uint32_t{65536}) + raw(uint32_t{0});
  std::string body;
};

// One unfiltered chunk.
std::string chunk(const std::string& contents) {
  const auto length = static_cast<uint32_t>(contents.size());
  return raw(uint64_t{1}) + raw(length) + raw(length) + raw(uint32_t{0}) + contents;
}

std::string serialize(const Fields& f) {
  return raw(f.version) + raw(static_cast<uint64_t>(f.body.size())) + raw(f.tile_bytes) +
         raw(f.type) + raw(uint64_t{1}) + raw(f.encryption) +
         raw(static_cast<uint32_t>(f.pipeline.size())) + f.pipeline + f.body;
}

Fields fields_of(const std::string& contents) {
  Fields fields;
  fields.tile_bytes = contents.size();
  fields.body = chunk(contents);
  return fields;
}

GenericTile decode(const std::string& bytes) {
  return decode_generic_tile(std::as_bytes(std::span(bytes)));
}

std::string text(const GenericTile& tile) {
  return {reinterpret_cast<const char*>(tile.bytes.data()), tile.bytes.size()};
}

TEST(GenericTile, Decodes) {
  const std::string bytes = serialize(fields_of("contents"));
  const GenericTile tile = decode(bytes + "what follows");
  EXPECT_EQ(text(tile), "contents");
  EXPECT_EQ(tile.stored_bytes, bytes.size());
  EXPECT_EQ(tile.format_version, 22u);
}

TEST(GenericTile, CutShortIsCorrupt) {
  const std::string bytes = serialize(fields_of("contents"));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(decode(bytes.substr(0, length)), CorruptData) << length;
  }
}

TEST(GenericTile, WhatIsNotRead) {
  const auto with = [](const std::function<void(Fields&)>& change) {
    Fields fields = fields_of("contents");
    change(fields);
    return serialize(fields);
  };
  EXPECT_THROW(decode(with([](Fields& f) { f.encryption = 1; })), Unsupported);
  EXPECT_THROW(decode(with([](Fields& f) { f.version = 24; })), Unsupported);
  EXPECT_THROW(decode(with([](Fields& f) { f.type = 200; })), CorruptData);
  EXPECT_THROW(decode(with([](Fields& f) { f.tile_bytes = 9; })), CorruptData);
  EXPECT_THROW(decode(with([](Fields& f) { f.pipeline = std::string(70'000, '\0'); })),
               CorruptData);
}

// A header that claims 3 GiB for a few bytes is refused before memory is asked for.
TEST(GenericTile, ImplausibleInflationIsCorrupt) {
  Fields fields;
  fields.tile_bytes = 3ULL << 30;
  fields.pipeline = raw(uint32_t{65536}) + raw(uint32_t{1}) + raw(uint8_t{1}) + raw(uint32_t{5}) +
                    raw(uint8_t{1}) + raw(int32_t{-1});
  fields.body = raw(uint64_t{1}) + raw(uint32_t{3U << 30}) + raw(uint32_t{4}) + raw(uint32_t{16}) +
                raw(uint32_t{0}) + raw(uint32_t{1}) + raw(uint32_t{3U << 30}) + raw(uint32_t{4}) +
                "abcd";
  EXPECT_THROW(decode(serialize(fields)), CorruptData);
}

// Zeros are what a bomb is made of. It is refused by its size, before anything is inflated.
TEST(GenericTile, BombsAreRefusedUnread) {
  const auto zeros = [](uint32_t chunks, uint32_t chunk_bytes) {
    std::string one(compressBound(chunk_bytes), '\0');
    uLongf length = one.size();
    const std::string in(chunk_bytes, '\0');
    compress2(reinterpret_cast<Bytef*>(one.data()), &length,
              reinterpret_cast<const Bytef*>(in.data()), in.size(), 9);
    one.resize(length);
    Fields fields;
    fields.tile_bytes = uint64_t{chunks} * chunk_bytes;
    fields.pipeline = raw(uint32_t{65536}) + raw(uint32_t{1}) + raw(uint8_t{1}) + raw(uint32_t{5}) +
                      raw(uint8_t{1}) + raw(int32_t{-1});
    fields.body = raw(uint64_t{chunks});
    for (uint32_t i = 0; i < chunks; ++i) {
      fields.body += raw(chunk_bytes) + raw(static_cast<uint32_t>(length)) + raw(uint32_t{16}) +
                     raw(uint32_t{0}) + raw(uint32_t{1}) + raw(chunk_bytes) +
                     raw(static_cast<uint32_t>(length)) + one;
    }
    return serialize(fields);
  };
  EXPECT_EQ(decode(zeros(16, 1 << 20)).bytes.size(), size_t{16} << 20);
  EXPECT_THROW(decode(zeros(17, 1 << 20)), CorruptData);
  EXPECT_THROW(decode(zeros(1, 256U << 20)), CorruptData);
  const auto as_list = [](const std::string& stored) {
    return decode_generic_tile(std::as_bytes(std::span(stored)), kBelievedListBytes);
  };
  EXPECT_EQ(as_list(zeros(64, 1 << 20)).bytes.size(), size_t{64} << 20);
  const std::string bomb = zeros(65, 1 << 20);
  EXPECT_LT(bomb.size(), size_t{100'000});
  EXPECT_THROW(as_list(bomb), CorruptData);
}

TEST(GenericTile, HasOneFilter) {
  Fields fields = fields_of("contents");
  const std::string none = raw(uint8_t{0}) + raw(uint32_t{0});
  fields.pipeline = raw(uint32_t{65536}) + raw(uint32_t{1}) + none;
  EXPECT_EQ(text(decode(serialize(fields))), "contents");
  fields.pipeline = raw(uint32_t{65536}) + raw(uint32_t{2}) + none + none;
  EXPECT_THROW(decode(serialize(fields)), CorruptData);
}

// Long enough for several threads: chunks of uneven length, the last run not full.
TEST(GenericTile, LongTilesAreDecodedInParallel) {
  std::string contents;
  for (uint32_t i = 0; contents.size() < 3'000'000; ++i) contents += raw(i * 2654435761U);
  Fields fields;
  fields.tile_bytes = contents.size();
  uint64_t chunks = 0;
  for (size_t at = 0; at < contents.size(); ++chunks) {
    const size_t length = std::min<size_t>(contents.size() - at, 1 + (chunks * 7919) % 65536);
    fields.body += chunk(contents.substr(at, length)).substr(8);
    at += length;
  }
  fields.body = raw(chunks) + fields.body;
  ASSERT_GT(chunks, 64U);
  EXPECT_EQ(text(decode(serialize(fields))), contents);
  Fields damaged = fields;  // a byte of the contents, somewhere in the middle
  damaged.body[damaged.body.size() / 2] =
      static_cast<char>(damaged.body[damaged.body.size() / 2] ^ 1);
  EXPECT_NE(text(decode(serialize(damaged))), contents);
}

TEST(GenericTile, ReadAtAnOffsetOfALongObject) {
  io::MemoryStore store;
  const std::string contents(100'000, 'x');  // needs a second read
  Fields fields;
  fields.tile_bytes = contents.size();
  fields.body = raw(uint64_t{2});
  for (const auto& part : {contents.substr(0, 65536), contents.substr(65536)}) {
    fields.body += chunk(part).substr(8);
  }
  store.put("a/b", "before" + serialize(fields) + "behind");
  EXPECT_EQ(text(read_generic_tile(store, "a/b", 6)), contents);
  store.truncate("a/b", 6 + serialize(fields).size());
  EXPECT_EQ(text(read_generic_tile(store, "a/b", 6)), contents);
  store.truncate("a/b", 6 + serialize(fields).size() - 1);
  try {
    read_generic_tile(store, "a/b", 6);
    FAIL();
  } catch (const CorruptData& error) {
    EXPECT_NE(std::string(error.what()).find("a/b at offset 6"), std::string::npos);
  }
  EXPECT_THROW(read_generic_tile(store, "a/b", UINT64_MAX), CorruptData);
  EXPECT_THROW(read_generic_tile(store, "a/none"), NotFound);
}

}  // namespace
}  // namespace penstock::format::tiledb
