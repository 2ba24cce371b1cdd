#include "format/tiledb/directory/array_directory.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include "io/memory_store.h"

// Rules of visibility on made-up names; the golden stores have TileDB's own files.

namespace penstock::format::tiledb {
namespace {

class ArrayDirectoryTest : public testing::Test {
 protected:
  ArrayDirectoryTest() { put("__schema/__1_1_s"); }

  void put(const std::string& name, std::string_view bytes = "x") {
    store_->put(io::join("array", name), bytes);
  }
  void commit(const std::string& fragment) {
    put("__commits/" + fragment + ".wrt", "");
    put("__fragments/" + fragment + "/__fragment_metadata.tdb");
  }
  std::string visible(TimeRange range = {}, bool dense = false) const {
    std::string names;
    for (const auto& fragment : load(range).fragments(dense)) {
      names += fragment.name.uuid + (fragment.partly_in_range ? "* " : " ");
    }
    return names;
  }
  ArrayDirectory load(TimeRange range = {}) const {
    return ArrayDirectory::load(store_, "array", range);
  }

  std::shared_ptr<io::MemoryStore> store_ = std::make_shared<io::MemoryStore>();
};

TEST_F(ArrayDirectoryTest, OrderAndUncommittedFragments) {
  commit("__20_20_c_22");
  commit("__3_3_b_22");
  commit("__3_3_a_22");
  put("__fragments/__4_4_unfinished_22/__fragment_metadata.tdb");
  EXPECT_EQ(visible(), "a b c ");
  EXPECT_EQ(visible({4, 100}), "c ");
}

TEST_F(ArrayDirectoryTest, TheErrorForADamagedNameHasThePlace) {
  using namespace std::string_literals;
  put("__commits/__1_5_c_22.con", "__fragments/__1\0_1_a_22.wrt\n"s);
  try {
    load();
    FAIL();
  } catch (const CorruptData& error) {
    EXPECT_STREQ(error.what(), "not a timestamped name: __1, in array/__commits");
  }
}

TEST_F(ArrayDirectoryTest, ConsolidatedReplacesItsSourcesOnlyWhereItIsSeen) {
  commit("__1_1_a_22");
  commit("__5_5_b_22");
  commit("__9_9_d_22");
  commit("__1_5_c_22");
  put("__commits/__1_5_c_22.vac", "__fragments/__1_1_a_22\n__fragments/__5_5_b_22\n");
  EXPECT_EQ(visible(), "c d ");
  EXPECT_EQ(visible({0, 4}), "c* ");
  EXPECT_EQ(visible({2, 9}), "c* d ");
  EXPECT_EQ(visible({6, 9}), "d ");
  // Dense fragments have no cell timestamps: sources are seen until the whole range is.
  EXPECT_EQ(visible({0, 4}, true), "a ");
  EXPECT_EQ(visible({0, 5}, true), "c ");
  EXPECT_EQ(visible({2, 9}, true), "b d ");
}

TEST_F(ArrayDirectoryTest, BeforeFormat15NothingIsSeenInPart) {
  commit("__1_1_a_14");
  commit("__1_5_c_14");
  put("__commits/__1_5_c_14.vac", "file:///somewhere/array/__fragments/__1_1_a_14\n");
  EXPECT_EQ(visible({0, 4}), "a ");
  EXPECT_EQ(visible(), "c ");
}

TEST_F(ArrayDirectoryTest, ConsolidatedCommitsAndIgnoreFiles) {
  put("__commits/__1_3_x_22.con",
      "__commits/__1_1_a_22.wrt\n__commits/__2_2_b_22.wrt\n__commits/__3_3_c_22.wrt\n");
  commit("__3_3_c_22");  // listed twice, seen once
  put("__commits/__2_2_y_22.ign", "__commits/__2_2_b_22.wrt\n");
  EXPECT_EQ(visible(), "a c ");
}

TEST_F(ArrayDirectoryTest, LayoutBeforeFormat12) {
  put("__1_1_a_10/__fragment_metadata.tdb");
  put("__1_1_a_10.ok", "");
  put("__2_2_b_10/__fragment_metadata.tdb");  // not committed
  put("__3_3_c_10/__fragment_metadata.tdb");  // committed by a consolidated file
  put("__commits/__3_3_x_12.con", "__3_3_c_10.ok\n");
  put("__4_4_d/__fragment_metadata.tdb");  // before commit files
  put("__5_5_e_10/__fragment_metadata.tdb");
  put("__5_5_e_10.ok", "");
  put("__5_9_f_10.vac", "file:///array/__5_5_e_10\n");
  commit("__6_6_g_22");
  EXPECT_EQ(visible(), "a c d g ");
  EXPECT_EQ(load().fragments(false)[0].path, "array/__1_1_a_10");
}

TEST_F(ArrayDirectoryTest, DeletesWhollyInRangeInOrder) {
  put("__commits/__30_30_b_22.del");
  put("__commits/__4_4_a_22.del");
  put("__commits/__5_5_u_22.upd");
  const auto deletes = load().deletes();
  ASSERT_EQ(deletes.size(), 2u);
  EXPECT_EQ(deletes[0].marker, "__commits/__4_4_a_22.del");
  EXPECT_EQ(deletes[0].timestamp, 4u);
  EXPECT_EQ(deletes[1].path, "array/__commits/__30_30_b_22.del");
  EXPECT_EQ(load({5, 29}).deletes().size(), 0u);
}

TEST_F(ArrayDirectoryTest, LatestSchemaByName) {
  put("__schema/__5_5_t");
  put("__schema/__enumerations/__uuid_0");
  put("__schema/__9_9_v.tmp");
  EXPECT_EQ(load().latest_schema_name(), "__5_5_t");
  EXPECT_EQ(load({0, 4}).latest_schema_name(), "__1_1_s");
  EXPECT_EQ(load({0, 0}).latest_schema_name(), "__1_1_s");  // the oldest, when all are newer
  put("__array_schema.tdb");
  EXPECT_EQ(load({0, 0}).latest_schema_name(), "__array_schema.tdb");
  EXPECT_EQ(load().schema_path("__array_schema.tdb"), "array/__array_schema.tdb");
  EXPECT_EQ(load().schema_names().size(), 3u);
}

TEST_F(ArrayDirectoryTest, StrangeNamesAreCorrupt) {
  put("__commits/nonsense.wrt");
  EXPECT_THROW(load(), CorruptData);
}

TEST_F(ArrayDirectoryTest, NoSchemaIsNoArray) {
  EXPECT_THROW(ArrayDirectory::load(store_, "elsewhere"), NotFound);
}

}  // namespace
}  // namespace penstock::format::tiledb
