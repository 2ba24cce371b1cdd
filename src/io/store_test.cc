#include "io/store.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "io/file_store.h"
#include "io/memory_store.h"

// One suite that every store passes: a store is a way to write a tree and the store that reads it.

namespace penstock::io {
namespace {

struct Fixture {
  std::string root;
  StorePtr store;
  std::function<void(const std::string& path, const std::string& bytes)> write;
  std::function<void()> clean_up;
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

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest, testing::Values(&memory_fixture, &file_fixture),
                         [](const auto& store) { return store.index == 0 ? "Memory" : "File"; });

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

TEST(Paths, StoreForScheme) {
  EXPECT_EQ(store_for("/data"), file_store());
  EXPECT_EQ(store_for("file:///data"), file_store());
  EXPECT_EQ(store_for("a/b"), file_store());
  EXPECT_THROW(store_for("s3://bucket/x"), Unsupported);
  EXPECT_THROW(store_for("https://host/x"), Unsupported);
}

}  // namespace
}  // namespace penstock::io
