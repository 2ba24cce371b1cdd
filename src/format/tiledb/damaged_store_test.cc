// Golden stores, truncated at every length and with random bytes changed, must give an Error or an
// answer, never a crash. Most useful in sanitizer builds.

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/testing/test_data.h"
#include "base/testing/test_seed.h"
#include "format/tiledb/condition/delete_condition.h"
#include "format/tiledb/directory/array_directory.h"
#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/group.h"
#include "format/tiledb/metadata.h"
#include "format/tiledb/schema/enumeration.h"
#include "io/memory_store.h"

namespace penstock::format::tiledb {
namespace {

constexpr const char* kStores[] = {"types",
                                   "strings",
                                   "hilbert",
                                   "dense",
                                   "vacuumed",
                                   "deletes",
                                   "labelled",
                                   "enumerated",
                                   "evolved",
                                   "groups/root",
                                   "format18/array",
                                   "current_domain/sparse",
                                   "deleted_fragments"};

std::string golden_path(const std::string& name) { return test_data("tiledb_golden/" + name); }

std::shared_ptr<io::MemoryStore> copy_of(const std::string& path) {
  auto store = std::make_shared<io::MemoryStore>();
  store->copy_tree(*io::file_store(), path);
  return store;
}

bool is_cells(const std::string& path) {
  return path.ends_with(".tdb") && !path.ends_with("__fragment_metadata.tdb");
}

// Notes which objects are read.
class RecordingStore final : public io::Store {
 public:
  explicit RecordingStore(io::StorePtr store) : store_(std::move(store)) {}
  const std::set<std::string>& paths() const { return paths_; }

  std::vector<io::DirectoryEntry> list(const std::string& path) const override {
    return store_->list(path);
  }
  bool exists(const std::string& path) const override { return store_->exists(path); }
  bool is_directory(const std::string& path) const override { return store_->is_directory(path); }
  uint64_t size_bytes(const std::string& path) const override { return store_->size_bytes(path); }
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override {
    paths_.insert(path);
    store_->read(path, offset, out);
  }

 private:
  io::StorePtr store_;
  mutable std::set<std::string> paths_;
};

// Objects that hold metadata, without the empty ones.
std::vector<std::string> metadata_objects(const io::MemoryStore& store) {
  std::vector<std::string> paths;
  for (const std::string& path : store.paths()) {
    if (!is_cells(path) && store.size_bytes(path) > 0) paths.push_back(path);
  }
  return paths;
}

// Reads all metadata that there is.
void read_everything(const io::StorePtr& store, const std::string& path) {
  load_metadata(*store, path);
  if (object_type(*store, path) == ObjectType::kGroup) {
    Group::load(*store, path);
    return;
  }
  const auto directory = ArrayDirectory::load(store, path);
  const ArraySchemas schemas = directory.load_schemas();
  for (const auto& [name, schema] : schemas) {
    for (const auto& [key, file] : schema->enumeration_files) {
      load_enumeration(*store, path, *schema, key);
    }
  }
  for (const DeleteCommit& commit : directory.deletes()) load_delete_condition(*store, commit);
  const bool dense = schemas.find(directory.latest_schema_name())->second->dense();
  const auto locations = directory.fragments(dense);
  const auto footers = directory.load_consolidated_footers(locations);
  for (const FragmentLocation& location : locations) {
    const auto fragment = FragmentMetadata::load(store, location, schemas, &footers);
    FragmentMetadata::load(store, location, schemas);
    if (!fragment->dense()) fragment->load_tile_bounds();
    fragment->load_processed_conditions();
    for (const FragmentField& field : fragment->fields()) {
      fragment->load_tile_offsets(field);
      if (field.var_length()) fragment->load_var_tile_sizes(field);
      for (uint64_t tile = 0; tile < fragment->tile_count(); ++tile) {
        const io::ByteRange range = fragment->tile_range(field, TilePart::kData, tile);
        EXPECT_LE(range.end(), fragment->file_bytes(field, TilePart::kData));
      }
    }
  }
}

class DamagedStoreTest : public testing::TestWithParam<const char*> {};

// Lists (.vac, .ign, .con) may be cut between two entries without a trace.
bool may_be_cut(const std::string& path) {
  return path.ends_with(".vac") || path.ends_with(".ign") || path.ends_with(".con");
}

TEST_P(DamagedStoreTest, CutShortAtEveryLength) {
  const std::string root = golden_path(GetParam());
  const auto store = copy_of(root);
  const auto recorder = std::make_shared<RecordingStore>(store);
  ASSERT_NO_THROW(read_everything(recorder, root));
  ASSERT_GE(recorder->paths().size(), 2u);
  for (const std::string& path : recorder->paths()) {
    const Buffer whole = store->read_all(path);
    // The first layers of a long file take every length, its tail in steps.
    for (uint64_t length = 0; length < whole.size(); length += length < 600 ? 1 : 7) {
      store->truncate(path, length);
      if (may_be_cut(path)) {
        try {
          read_everything(store, root);
        } catch (const Error&) {
        }
      } else {
        EXPECT_THROW(read_everything(store, root), Error) << path << " cut to " << length;
      }
      store->put(path, whole.span());
    }
  }
  EXPECT_NO_THROW(read_everything(store, root));
}

TEST_P(DamagedStoreTest, RandomBytesChanged) {
  const std::string root = golden_path(GetParam());
  const auto store = copy_of(root);
  const std::vector<std::string> paths = metadata_objects(*store);
  const TestSeed seed(11);
  std::mt19937_64 random(seed);
  int errors = 0;
  constexpr int kRounds = 600;
  for (int round = 0; round < kRounds; ++round) {
    const std::string& path = paths[random() % paths.size()];
    const Buffer whole = store->read_all(path);
    Buffer damaged = store->read_all(path);
    for (uint64_t i = 0; i <= random() % 3; ++i) {
      damaged.span()[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    store->put(path, damaged.span());
    try {
      read_everything(store, root);
    } catch (const Error& error) {
      ++errors;
      // Says where: the object, or the commit that it belongs to.
      EXPECT_NE(std::string(error.what()).find(root), std::string::npos) << error.what();
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
    store->put(path, whole.span());
  }
  EXPECT_GT(errors, kRounds / 10);
  EXPECT_NO_THROW(read_everything(store, root));
}

// The schemas that cannot be missed: those of fragments, or the only one.
std::set<std::string> needed_schemas(const io::StorePtr& store, const std::string& root) {
  std::set<std::string> names;
  if (object_type(*store, root) == ObjectType::kGroup) return names;
  const auto directory = ArrayDirectory::load(store, root);
  const ArraySchemas schemas = directory.load_schemas();
  if (schemas.size() == 1) names.insert(schemas.begin()->first);
  const bool dense = schemas.find(directory.latest_schema_name())->second->dense();
  for (const FragmentLocation& location : directory.fragments(dense)) {
    names.insert(FragmentMetadata::load(store, location, schemas)->footer().schema->name);
  }
  return names;
}

// Objects that others name, and .ign, without which .con names removed fragments. Objects that are
// found by listing alone (commits, metadata, members of a group, a schema without fragments) are
// then simply absent, as for TileDB.
bool is_needed(const std::string& path, const std::set<std::string>& schemas) {
  if (path.find("/__enumerations/") != std::string::npos) return true;
  if (path.find("/__schema/") != std::string::npos) return schemas.contains(io::base_name(path));
  return path.ends_with("__fragment_metadata.tdb") || path.ends_with(".ign");
}

TEST_P(DamagedStoreTest, ObjectsThatVanish) {
  const std::string root = golden_path(GetParam());
  const auto store = copy_of(root);
  const auto recorder = std::make_shared<RecordingStore>(store);
  ASSERT_NO_THROW(read_everything(recorder, root));
  const std::set<std::string> schemas = needed_schemas(store, root);
  for (const std::string& path : metadata_objects(*store)) {
    const Buffer whole = store->read_all(path);
    store->remove(path);
    bool failed = false;
    try {
      read_everything(store, root);
    } catch (const Error& error) {
      failed = true;
      EXPECT_NE(std::string(error.what()).find(root), std::string::npos) << error.what();
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    }
    if (recorder->paths().contains(path)) {
      EXPECT_EQ(failed, is_needed(path, schemas)) << path;
    }
    store->put(path, whole.span());
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, DamagedStoreTest, testing::ValuesIn(kStores),
                         [](const auto& store) {
                           std::string name = store.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

TEST(DamagedStore, MissingFragmentFolderIsNotFound) {
  const std::string root = golden_path("hilbert");
  const auto store = copy_of(root);
  const auto directory = ArrayDirectory::load(store, root);
  const auto schemas = directory.load_schemas();
  const auto locations = directory.fragments(false);
  store->remove(io::join(locations.at(0).path, "__fragment_metadata.tdb"));
  EXPECT_THROW(FragmentMetadata::load(store, locations.at(0), schemas), NotFound);
}

}  // namespace
}  // namespace penstock::format::tiledb
