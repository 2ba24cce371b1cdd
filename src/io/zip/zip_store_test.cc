#include "io/zip/zip_store.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/memory_store.h"
#include "io/zip/testing/zip_writer.h"

// Archives that are damaged, hostile or of a kind that is not read. store_test.cc tests reading.

namespace penstock::io {
namespace {

StorePtr opened(const std::string& archive) {
  const auto store = std::make_shared<MemoryStore>();
  store->put("d/x.zip", archive);
  return open_zip(store, "d/x.zip");
}

std::string contents(const Store& store, const std::string& name) {
  const Buffer bytes = store.read_all("d/x.zip/" + name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Expected>
std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return "another error: " + std::string(error.what());
  }
  return "no error";
}

TEST(ZipStore, ReadsStoredAndDeflatedEntries) {
  const std::string text(5000, 'x');
  for (const bool zip64 : {false, true}) {
    const auto store = opened(ZipWriter::archive({{"a/b", text, true, zip64},
                                                  {"a/c", "stored", false, zip64},
                                                  {"e", "", true, zip64},
                                                  {"f/", "", false, zip64}},
                                                 "a comment", zip64));
    EXPECT_EQ(contents(*store, "a/b"), text);
    EXPECT_EQ(contents(*store, "a/c"), "stored");
    EXPECT_EQ(contents(*store, "e"), "");
    std::string part(3, '?');
    store->read("d/x.zip/a/c", 2, std::as_writable_bytes(std::span(part)));
    EXPECT_EQ(part, "ore");
    EXPECT_EQ(store->list("d/x.zip").size(), 2U);
    EXPECT_FALSE(store->exists("d/x.zip/f"));
    EXPECT_FALSE(store->exists("d/x.zip.b/a/c"));
    EXPECT_FALSE(store->exists("a/c"));
  }
}

TEST(ZipStore, TheLastOfTwoEntriesWins) {
  EXPECT_EQ(contents(*opened(ZipWriter::archive({{"a", "old"}, {"a", "newer"}})), "a"), "newer");
}

// Entries of different sizes at one place: neither may be read as the other.
TEST(ZipStore, EntriesMayShareAPlace) {
  const std::string text(100, 'x');
  ZipMember second{"b", text, true};
  const std::string first = ZipWriter::archive({{"a", text, true}});
  const size_t data_bytes = first.find("PK\x01\x02");  // of the first entry, with its header
  second.shift = UINT64_MAX - data_bytes + 1;
  second.grow_size = 1000;
  const auto store = opened(ZipWriter::archive({{"a", text, true}, second}));
  EXPECT_EQ(contents(*store, "a"), text);
  EXPECT_EQ(store->size_bytes("d/x.zip/b"), 1100U);
  EXPECT_THROW(contents(*store, "b"), CorruptData);
  EXPECT_EQ(contents(*store, "a"), text);
}

TEST(ZipStore, ExtraFieldsOfTheLocalHeaderCount) {
  ZipMember member{"a", "here"};
  member.local_extra = std::string("\x99\x99\x04\x00wide", 8);
  EXPECT_EQ(contents(*opened(ZipWriter::archive({member})), "a"), "here");
}

TEST(ZipStore, NamesThatLeadElsewhereAreNoEntries) {
  const auto store =
      opened(ZipWriter::archive({{"../up", "1"}, {"/root", "2"}, {"a/../b", "3"}, {"\xff", "4"}}));
  EXPECT_TRUE(store->list("d/x.zip").empty());
}

TEST(ZipStore, WhatIsNotReadIsNamedWhenItIsRead) {
  ZipMember secret{"secret", "1234"};
  secret.flags = 1;
  ZipMember zstd{"other", "1234"};
  zstd.method = 93;
  const auto store = opened(ZipWriter::archive({secret, zstd, {"plain", "5"}}));
  EXPECT_EQ(contents(*store, "plain"), "5");
  const auto encrypted = message<Unsupported>([&] { contents(*store, "secret"); });
  EXPECT_NE(encrypted.find("encrypted"), std::string::npos) << encrypted;
  EXPECT_NE(encrypted.find("d/x.zip/secret"), std::string::npos) << encrypted;
  const auto method = message<Unsupported>([&] { contents(*store, "other"); });
  EXPECT_NE(method.find("method 93"), std::string::npos) << method;
}

TEST(ZipStore, ALongEntryOfNextToNothingIsNotInflated) {
  ZipMember zeros{"zeros", std::string((size_t{64} << 20) + 1, '\0')};
  zeros.deflated = true;
  const auto store = opened(ZipWriter::archive({zeros, {"plain", "5"}}));
  const auto said = message<Unsupported>([&] { contents(*store, "zeros"); });
  EXPECT_NE(said.find("a deflated entry of 67108865 bytes, stored in"), std::string::npos) << said;
  EXPECT_NE(said.find("d/x.zip/zeros"), std::string::npos) << said;
  EXPECT_EQ(contents(*store, "plain"), "5");
}

TEST(ZipStore, AWholeStoredEntryHasItsChecksum) {
  std::string archive = ZipWriter::archive({{"a/b", "0123456789"}, {"c", "other"}});
  const size_t at = archive.find("0123");
  archive[at + 3] = '?';
  const auto store = opened(archive);
  const auto said = message<CorruptData>([&] { contents(*store, "a/b"); });
  EXPECT_NE(said.find("CRC-32"), std::string::npos) << said;
  EXPECT_NE(said.find("d/x.zip/a/b"), std::string::npos) << said;
  EXPECT_EQ(contents(*store, "c"), "other");
  // Several at once: the damaged one is named.
  std::string first(10, '?'), second(5, '?');
  const std::string damaged = "d/x.zip/a/b", whole = "d/x.zip/c";
  const std::vector<ReadRequest> both = {{whole, 0, std::as_writable_bytes(std::span(second))},
                                         {damaged, 0, std::as_writable_bytes(std::span(first))}};
  const auto told = message<CorruptData>([&] { store->read_many(both); });
  EXPECT_NE(told.find("d/x.zip/a/b"), std::string::npos) << told;
  // A range has none.
  std::string part(4, ' ');
  store->read("d/x.zip/a/b", 0, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "012?");
}

TEST(ZipStore, NamesAreTheSameInBothHeaders) {
  const std::string archive = ZipWriter::archive({{"data/3", "1234"}, {"data/4", "5678"}});
  for (const bool in_directory : {false, true}) {
    std::string damaged = archive;
    const size_t at = in_directory ? damaged.rfind("data/3") : damaged.find("data/3");
    damaged[at + 5] = '7';
    const auto store = opened(damaged);
    const std::string name = in_directory ? "data/7" : "data/3";
    const auto said = message<CorruptData>([&] { contents(*store, name); });
    EXPECT_NE(said.find("different names"), std::string::npos) << said;
    EXPECT_NE(said.find("d/x.zip/" + name), std::string::npos) << said;
    EXPECT_EQ(contents(*store, "data/4"), "5678");
  }
}

TEST(ZipStore, TheNumberOfEntriesIsThatOfTheDirectory) {
  for (const bool zip64 : {false, true}) {
    std::string archive = ZipWriter::archive({{"a", "1"}, {"b", "2"}}, "", zip64);
    const size_t at = zip64 ? archive.find("PK\x06\x06") + 32 : archive.size() - 12;
    ASSERT_EQ(archive[at], '\2');
    archive[at] = '\3';
    const auto said = message<CorruptData>([&] { opened(archive); });
    EXPECT_NE(said.find("must have 3 entries"), std::string::npos) << said;
  }
}

TEST(ZipStore, HostileOffsetsAreCorrupt) {
  const auto is_corrupt = [](const ZipMember& member) {
    return !message<CorruptData>([&] {
              contents(*opened(ZipWriter::archive({{"first", "123"}, member})), member.name);
            }).starts_with("another");
  };
  for (const uint64_t shift : {uint64_t{1}, uint64_t{40}, uint64_t{1} << 31, UINT64_MAX - 200}) {
    for (const bool zip64 : {false, true}) {
      ZipMember member{"a", "12345678", false, zip64};
      member.shift = shift;
      EXPECT_TRUE(is_corrupt(member)) << shift;
      member.shift = 0;
      member.grow = shift;
      EXPECT_TRUE(is_corrupt(member)) << shift;
    }
  }
  // A few bytes that claim to become gigabytes.
  ZipMember bomb{"a", std::string(100, 'x'), true, true};
  bomb.grow = uint64_t{1} << 29;
  EXPECT_TRUE(is_corrupt(bomb));
}

TEST(ZipStore, DamageIsSeenOrLeavesTheContents) {
  const std::string text(300, 'x');
  const std::string archive = ZipWriter::archive({{"a/b", text, true}, {"c", "stored"}}, "", true);
  const auto read = [&](const std::string& bytes) {
    return message<CorruptData>([&] {
      const auto store = opened(bytes);
      if (store->exists("d/x.zip/a/b")) {
        EXPECT_EQ(contents(*store, "a/b"), text);
      }
      if (store->exists("d/x.zip/c")) {
        EXPECT_EQ(contents(*store, "c"), "stored");
      }
    });
  };
  EXPECT_EQ(read(archive), "no error");
  for (size_t size = 0; size < archive.size(); ++size) {
    const auto said = read(archive.substr(0, size));
    EXPECT_NE(said.find("x.zip"), std::string::npos) << size << said;
    EXPECT_EQ(said.find("another"), std::string::npos) << size << said;
  }
  for (size_t i = 0; i < archive.size(); ++i) {
    std::string damaged = archive;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    const auto said = read(damaged);
    EXPECT_TRUE(!said.starts_with("another") || said.find("is not read") != std::string::npos)
        << i << said;
  }
}

}  // namespace
}  // namespace penstock::io
