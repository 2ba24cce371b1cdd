#include "io/store.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "io/file_store.h"
#include "io/memory_store.h"
#include "io/storage_options.h"
#include "io/testing/loopback_server.h"
#include "io/url_secrets.h"
#include "io/zip/testing/zip_writer.h"
#include "io/zip/zip_store.h"

// One suite for every store. Each tested kind writes a tree and makes the store that reads it.

namespace penstock::io {
namespace {

struct Fixture {
  std::string root;
  StorePtr store;
  std::function<void(const std::string& path, const std::string& bytes)> write;
  std::function<void()> clean_up;
  /// The store as another process opens it; null if it is always as it is now.
  std::function<StorePtr()> open_again = nullptr;
};

Fixture memory_fixture() {
  auto store = std::make_shared<MemoryStore>();
  return {"mem", store, [store](const auto& path, const auto& bytes) { store->put(path, bytes); },
          [] {}};
}

Fixture file_fixture() {
  std::string pattern = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
  const std::string root = ::mkdtemp(pattern.data());
  return {root, file_store(),
          [](const std::string& path, const std::string& bytes) {
            std::filesystem::create_directories(std::filesystem::path(path).parent_path());
            std::ofstream(path, std::ios::binary) << bytes;
          },
          [root] { std::filesystem::remove_all(root); }};
}

Fixture http_fixture() {
  auto server = std::make_shared<LoopbackServer>();
  const std::string root = server->url() + "/data";
  return {root, store_for(root, {}),
          [server](const std::string& path, const std::string& bytes) {
            server->put(path.substr(server->url().size()), bytes);
          },
          [] {}, [root] { return store_for(root, {}); }};
}

Fixture s3_fixture() {
  auto server = std::make_shared<LoopbackServer>();
  const StorageOptions options{{{"endpoint", server->url()}, {"anonymous", "true"}}};
  return {"s3://bucket/data", store_for("s3://bucket/data", options),
          [server](const std::string& path, const std::string& bytes) {
            server->put(path.substr(std::string("s3:/").size()), bytes);
          },
          [] {}, [options] { return store_for("s3://bucket/data", options); }};
}

/// An archive that is opened again after each write; every second entry is deflated.
Fixture zip_fixture() {
  class Reopened final : public Store {
   public:
    void write(const std::string& path, const std::string& bytes) {
      const std::string name = path.substr(kRoot.size() + 1);
      std::erase_if(members_, [&](const ZipMember& member) { return member.name == name; });
      members_.push_back({name, bytes, members_.size() % 2 == 1});
      const auto archives = std::make_shared<MemoryStore>();
      archives->put(kRoot, ZipWriter::archive(members_));
      store_ = open_zip(archives, kRoot);
    }
    std::vector<DirectoryEntry> list(const std::string& path) const override {
      return store_->list(path);
    }
    bool exists(const std::string& path) const override { return store_->exists(path); }
    bool is_directory(const std::string& path) const override { return store_->is_directory(path); }
    uint64_t size_bytes(const std::string& path) const override { return store_->size_bytes(path); }
    std::string version(const std::string& path) const override { return store_->version(path); }
    void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override {
      store_->read(path, offset, out);
    }
    void read_many(std::span<const ReadRequest> reads) const override { store_->read_many(reads); }

    const std::string kRoot = "folder/data.zip";

   private:
    std::vector<ZipMember> members_;
    StorePtr store_;
  };
  const auto store = std::make_shared<Reopened>();
  return {store->kRoot, store,
          [store](const std::string& path, const std::string& bytes) { store->write(path, bytes); },
          [] {}};
}

class StoreTest : public testing::TestWithParam<Fixture (*)()> {
 protected:
  void SetUp() override {
    fixture_ = GetParam()();
    write("a/b/one", "0123456789");
    write("a/b/two", "");
    write("a/b.x/three", "xyz");
    write("a/zero", "0");
  }
  void TearDown() override { fixture_.clean_up(); }

  std::string path(const std::string& name) const { return join(fixture_.root, name); }
  void write(const std::string& name, const std::string& bytes) {
    fixture_.write(path(name), bytes);
  }
  std::string read(const std::string& name, uint64_t offset, size_t length) const {
    std::string out(length, '?');
    store().read(path(name), offset, std::as_writable_bytes(std::span(out)));
    return out;
  }
  const Store& store() const { return *fixture_.store; }

  Fixture fixture_;
};

TEST_P(StoreTest, ListsSortedWithSizes) {
  const auto entries = store().list(path("a"));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "b");
  EXPECT_TRUE(entries[0].is_directory);
  EXPECT_EQ(entries[1].name, "b.x");
  EXPECT_EQ(entries[2].name, "zero");
  EXPECT_FALSE(entries[2].is_directory);
  EXPECT_EQ(entries[2].size_bytes, 1u);
  EXPECT_EQ(store().list(path("a") + "/").size(), 3u);
  EXPECT_TRUE(store().list(path("absent")).empty());
  EXPECT_TRUE(store().list(path("a/zero")).empty());
}

TEST_P(StoreTest, TellsObjectsFromDirectories) {
  EXPECT_TRUE(store().exists(path("a/b/two")));
  EXPECT_FALSE(store().exists(path("a/b")));
  EXPECT_TRUE(store().is_directory(path("a/b")));
  EXPECT_FALSE(store().is_directory(path("a/b/one")));
  EXPECT_FALSE(store().exists(path("a/b/none")));
  EXPECT_FALSE(store().is_directory(path("a/c")));
}

TEST_P(StoreTest, Reads) {
  EXPECT_EQ(store().size_bytes(path("a/b/one")), 10u);
  EXPECT_EQ(read("a/b/one", 0, 10), "0123456789");
  EXPECT_EQ(read("a/b/one", 7, 3), "789");
  EXPECT_EQ(read("a/b/one", 10, 0), "");
  EXPECT_EQ(store().read_all(path("a/b/one")).size(), 10u);
  EXPECT_EQ(store().read_all(path("a/b/two")).size(), 0u);
}

TEST_P(StoreTest, ShortObjectIsCorruptAndSaysWhereItEnds) {
  try {
    read("a/b/one", 8, 3);
    FAIL();
  } catch (const CorruptData& error) {
    EXPECT_NE(std::string(error.what()).find("ends at 10"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("one"), std::string::npos);
  }
  EXPECT_THROW(read("a/b/one", 11, 1), CorruptData);
  EXPECT_THROW(read("a/b/one", UINT64_MAX, 1), CorruptData);
}

TEST_P(StoreTest, MissingObjectIsNotFound) {
  EXPECT_THROW(read("a/none", 0, 1), NotFound);
  EXPECT_THROW(store().size_bytes(path("a/none")), NotFound);
  EXPECT_THROW(store().read_all(path("a/none/deeper")), NotFound);
}

TEST_P(StoreTest, ReadsManyAtOnce) {
  std::string one(4, '?'), two(2, '?'), three(3, '?'), none;
  const std::vector<ReadRequest> reads{
      {path("a/b/one"), 3, std::as_writable_bytes(std::span(one))},
      {path("a/b.x/three"), 0, std::as_writable_bytes(std::span(three))},
      {path("a/b/one"), 0, std::as_writable_bytes(std::span(two))},
      {path("a/b/two"), 0, std::as_writable_bytes(std::span(none))}};
  store().read_many(reads);
  EXPECT_EQ(one + two + three, "345601xyz");
  store().read_many({});
  const std::vector<ReadRequest> beyond{
      reads[0], {path("a/b.x/three"), 1, std::as_writable_bytes(std::span(three))}};
  EXPECT_THROW(store().read_many(beyond), CorruptData);
  const std::vector<ReadRequest> absent{
      {path("a/none"), 0, std::as_writable_bytes(std::span(one))}};
  EXPECT_THROW(store().read_many(absent), NotFound);
}

// A web server tells no version before an object is read.
TEST_P(StoreTest, AVersionChangesWithTheObject) {
  const auto version_in = [&](const Store& opened, const std::string& name) {
    opened.read_all(path(name));
    return opened.version(path(name));
  };
  const std::string one = version_in(store(), "a/b/one");
  EXPECT_NE(one, "");
  EXPECT_EQ(version_in(store(), "a/b/one"), one);
  EXPECT_THROW(store().version(path("a/none")), NotFound);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a step of the times of files
  write("a/b/one", "9876543210");                              // as long as before
  const StorePtr later = fixture_.open_again ? fixture_.open_again() : fixture_.store;
  const std::string changed = version_in(*later, "a/b/one");
  EXPECT_NE(changed, "");
  EXPECT_NE(changed, one);
  write("a/b/one", "0123456789ab");
  const StorePtr last = fixture_.open_again ? fixture_.open_again() : fixture_.store;
  EXPECT_NE(version_in(*last, "a/b/one"), changed);
}

TEST(RemoteStores, OnlyListingsTellVersionsBeforeAnObjectIsRead) {
  Fixture s3 = s3_fixture();
  s3.write(join(s3.root, "x"), "abc");
  EXPECT_NE(s3.store->version(join(s3.root, "x")), "");
  Fixture http = http_fixture();
  http.write(join(http.root, "x"), "abc");
  EXPECT_EQ(http.store->version(join(http.root, "x")), "");
  http.store->read_all(join(http.root, "x"));
  EXPECT_NE(http.store->version(join(http.root, "x")), "");
}

// Reads give the same bytes whether ranges were announced or not, in any pieces.
TEST_P(StoreTest, WhatWasAnnouncedReadsTheSame) {
  store().will_open(fixture_.root);
  const std::vector<ObjectRange> ranges{{path("a/b/one"), {2, 5}},
                                        {path("a/b/one"), {8, 100}},
                                        {path("a/b/none"), {0, 10}},
                                        {path("a/b/two"), {0, 10}},
                                        {path("a/zero"), {1, 1}}};
  store().will_read(ranges);
  EXPECT_EQ(read("a/b/one", 2, 5), "23456");
  EXPECT_EQ(read("a/b/one", 3, 2), "34");
  EXPECT_EQ(read("a/b/one", 8, 2), "89");
  EXPECT_EQ(read("a/b/one", 0, 10), "0123456789");
  EXPECT_EQ(store().list(path("a")).size(), 3u);
  EXPECT_THROW(read("a/b/one", 8, 3), CorruptData);
  EXPECT_THROW(read("a/b/none", 0, 1), NotFound);
  EXPECT_FALSE(store().is_directory(path("a/c")));
}

std::string name_of_store(const testing::TestParamInfo<Fixture (*)()>& info) {
  constexpr const char* kNames[] = {"Memory", "File", "Http", "S3", "Zip"};
  return kNames[info.index];
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest,
                         testing::Values(&memory_fixture, &file_fixture, &http_fixture, &s3_fixture,
                                         &zip_fixture),
                         &name_of_store);

TEST(FileStore, RefusalsCarryErrnoTextAndPath) {
  Fixture fixture = file_fixture();
  try {
    fixture.store->read_all(fixture.root);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("Is a directory"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(fixture.root), std::string::npos);
  }
  std::byte byte;
  EXPECT_THROW(fixture.store->read(fixture.root, 0, {&byte, 1}), IoError);
  fixture.clean_up();
}

TEST(FileStore, FileUriIsAPath) {
  Fixture fixture = file_fixture();
  fixture.write(join(fixture.root, "x"), "abc");
  EXPECT_EQ(fixture.store->size_bytes("file://" + join(fixture.root, "x")), 3u);
  EXPECT_EQ(fixture.store->list("file://" + fixture.root + "/").size(), 1u);
  fixture.clean_up();
}

TEST(MemoryStore, CopiesTreesAndTruncates) {
  Fixture fixture = file_fixture();
  fixture.write(join(fixture.root, "a/x"), "abc");
  fixture.write(join(fixture.root, "y"), "de");
  MemoryStore copy;
  copy.copy_tree(*fixture.store, fixture.root);
  EXPECT_EQ(copy.paths(), (std::vector{join(fixture.root, "a/x"), join(fixture.root, "y")}));
  copy.truncate(join(fixture.root, "y"), 1);
  EXPECT_EQ(copy.size_bytes(join(fixture.root, "y")), 1u);
  copy.remove(join(fixture.root, "y"));
  EXPECT_FALSE(copy.exists(join(fixture.root, "y")));
  fixture.clean_up();
}

TEST(Paths, Join) {
  EXPECT_EQ(join("a", "b"), "a/b");
  EXPECT_EQ(join("a/", "/b"), "a/b");
  EXPECT_EQ(join("/", "b"), "/b");
  EXPECT_EQ(join("s3://bucket/", "x/y"), "s3://bucket/x/y");
}

TEST(Paths, NormalizeAndBaseName) {
  EXPECT_EQ(normalize("file:///data/x//"), "/data/x");
  EXPECT_EQ(normalize("/"), "/");
  EXPECT_EQ(normalize("s3://b/x/"), "s3://b/x");
  EXPECT_EQ(base_name("/a/b/c/"), "c");
  EXPECT_EQ(base_name("c"), "c");
}

TEST(Paths, AddressesWithSecretsAreRefusedUnseen) {
  for (const char* uri : {"http://user:hidden@host/x",
                          "https://hidden@host/x",
                          "http://user:hid/zzz@host/x",
                          "s3://AKIA:hidden@bucket/x",
                          "s3://AKIA:hid/zzz@bucket/x",
                          "gs://user:hidden@bucket/x",
                          "file://user:hidden@host/x",
                          "https://host/x?X-Amz-Signature=hidden",
                          "HTTP://host/?hidden",
                          "http:///user:hidden@host/x",
                          "https:////hidden@host/x",
                          "https://user:12/hidden@host/x",
                          "https://user:12/zzz/hidden@host/x",
                          " https://user:hidden@host/x",
                          "\t'https://host/x?hidden",
                          "\xef\xbb\xbfhttps://hidden@host/x",
                          "https://host/x#hidden",
                          "s3://AKIA:12/hidden@bucket/x",
                          "az://container/x?sig=hidden",
                          "gs://bucket/x#hidden",
                          "http:/user:hidden@host/x",
                          "https;//user:hidden@host/x",
                          "HTTP:user:hidden@host/x",
                          "http//user:hidden@host/x",
                          "//user:hidden@host/x",
                          "http://user%3Ahidden%40host/x",
                          "s3://AKIA%3ahidden%40bucket/x",
                          "simplecache::https://user:hidden@host/x",
                          "simplecache::https:/user:hidden@host/x",
                          "https%3A//user:hidden@host/x",
                          "https\xef\xbc\x9a//user:hidden@host/x",
                          "https:/host/x?hidden"}) {
    EXPECT_NE(secret_part_of(uri), "") << uri;
    try {
      store_for(uri, {});
      FAIL() << uri;
    } catch (const InvalidArgument& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("storage_options"), std::string::npos) << said;
      EXPECT_EQ(said.find("hid"), std::string::npos) << said;
      EXPECT_EQ(said.find("zzz"), std::string::npos) << said;
    }
  }
  for (const char* uri : {"http://host:80/a%40b:c", "http://host/a@b:c", "https://[fe80::1]:443/x",
                          "https://[fe80::1]/x", "s3://bucket/a?b", "/data/http://user:x@host",
                          "user:x@host/x", "", "http://", "http:/host", "http/a@b", "https@a",
                          "httpd:a@b", "a b://c:d@e", "data/http://a:b@c", "http_data/a@b",
                          "//share/a:b@c", "s3://arn:aws:s3:eu-west-1:1234:accesspoint/x"}) {
    EXPECT_EQ(secret_part_of(uri), "") << uri;
  }
  EXPECT_EQ(shown_address("https://user:pass@host/p@q?token=t#f"), "https://host/p@q");
  EXPECT_EQ(shown_address("user:pass@host:9000"), "host:9000");
  EXPECT_EQ(shown_address("http://host/p"), "http://host/p");
  EXPECT_EQ(shown_address("http:///user:pass@host/p"), "http://host/p");
  EXPECT_EQ(shown_address("/p/q"), "/p/q");
}

TEST(Paths, NoErrorShowsTheValueOfAnOption) {
  const auto said = [](const std::string& uri, const StorageOptions& options) {
    try {
      store_for(uri, options);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string header = said("https://host/x", {{{"header.Authorization: hidden", ""}}});
  EXPECT_NE(header.find("Authorization"), std::string::npos) << header;
  EXPECT_EQ(header.find("hidden"), std::string::npos) << header;
  for (const char* endpoint : {"https://key:hidden@host", "key:hidden@host:9000"}) {
    const std::string error = said("s3://bucket/x", {{{"endpoint", endpoint}}});
    EXPECT_NE(error.find("endpoint must"), std::string::npos) << error;
    EXPECT_EQ(error.find("hidden"), std::string::npos) << error;
  }
  for (const char* option : {"anonymous", "requester_pays", "addressing_style", "max_attempts",
                             "region", "stall_timeout", "endpoint"}) {
    const std::string error = said("s3://bucket/x", {{{option, "hid/den"}}});
    EXPECT_NE(error.find(std::string(option) + " must be"), std::string::npos) << error;
    EXPECT_EQ(error.find("hid"), std::string::npos) << error;
  }
  const std::string others = said("https://host/x", {{{"regoin", "hidden"}}});
  EXPECT_NE(others.find("max_attempts, headers"), std::string::npos) << others;
}

TEST(Paths, StoreForScheme) {
  EXPECT_EQ(store_for("/data"), file_store());
  EXPECT_EQ(store_for("file:///data"), file_store());
  EXPECT_EQ(store_for("a/b"), file_store());
  EXPECT_THROW(store_for("gs://bucket/x"), Unsupported);
  EXPECT_THROW(store_for("/data", {{{"region", "x"}}}), InvalidArgument);
  EXPECT_THROW(store_for("s3://bucket/x", {{{"regoin", "x"}}}), InvalidArgument);
  EXPECT_THROW(store_for("s3://bucket/x", {{{"anonymous", "yes"}}}), InvalidArgument);
  EXPECT_THROW(store_for("s3://bucket/x", {{{"retry_timeout", "soon"}}}), InvalidArgument);
  EXPECT_THROW(store_for("https://host/x", {{{"region", "x"}}}), InvalidArgument);
  EXPECT_THROW(store_for("s3://", {}), InvalidArgument);
}

}  // namespace
}  // namespace penstock::io
