#include "format/tiledb/directory/timestamped_name.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include "format/tiledb/directory/consolidated_commits.h"
#include "io/memory_store.h"

namespace penstock::format::tiledb {
namespace {

TEST(TimestampedName, Parts) {
  const auto name = TimestampedName::parse("__10_20_0f1e_22.wrt");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->time, (TimeRange{10, 20}));
  EXPECT_EQ(name->uuid, "0f1e");
  EXPECT_EQ(name->version, 22u);
  EXPECT_EQ(name->suffix, ".wrt");
  EXPECT_EQ(name->stem(), "__10_20_0f1e_22");
  EXPECT_EQ(TimestampedName::parse("__10_20_0f1e")->version, 0u);
}

TEST(TimestampedName, OtherNames) {
  for (const char* name : {"", "__", "a0.tdb", "__schema", "__enumerations", "__10", "__10_20",
                           "__10_20_", "__20_10_0f", "__x_20_0f", "__10_20_0f_x", "_10_20_0f",
                           "__10_20_0f_22_1", "__99999999999999999999_1_0f", "__-1_2_0f"}) {
    EXPECT_FALSE(TimestampedName::parse(name)) << name;
  }
}

TEST(TimestampedName, OrderIsFirstTimeThenName) {
  const auto parse = [](const char* name) { return *TimestampedName::parse(name); };
  EXPECT_TRUE(parse("__9_9_b") < parse("__10_10_a"));
  EXPECT_TRUE(parse("__9_9_a") < parse("__9_9_b"));
  EXPECT_TRUE(parse("__1_9_a") < parse("__2_3_b"));
}

class VisibleFilesTest : public testing::Test {
 protected:
  std::string visible(TimeRange range) const {
    std::string names;
    for (const auto& file : visible_files(store_, "o/__meta", range)) names += file.uuid + " ";
    return names;
  }
  io::MemoryStore store_;
};

TEST_F(VisibleFilesTest, VacuumFilesHideWhatTheyName) {
  for (const char* name : {"__10_10_b", "__9_9_a", "__20_20_c", "__10_20_d", "__30_30_t.tmp"}) {
    store_.put(io::join("o/__meta", name), "x");
  }
  // Absolute as before format 19, and relative.
  store_.put("o/__meta/__10_20_d.vac", "file:///o/__meta/__10_10_b\n__meta/__20_20_c\n");
  EXPECT_EQ(visible({}), "a d ");
  EXPECT_EQ(visible({0, 19}), "a b ");  // d and its vacuum file are not wholly in range
  EXPECT_EQ(visible({10, 20}), "d ");
  EXPECT_EQ(visible({11, 20}), "c ");
  EXPECT_EQ(visible({40, 50}), "");
}

ConsolidatedCommits parse(const std::string& text) {
  return parse_consolidated_commits(std::as_bytes(std::span(text)));
}

TEST(ConsolidatedCommits, NamesAndConditions) {
  const std::string size("\x03\0\0\0\0\0\0\0", 8);
  const ConsolidatedCommits commits = parse("__commits/__1_1_a_22.wrt\n__commits/__2_2_b_22.del\n" +
                                            size + "abc__3_3_c_10.ok\n__commits/__4_4_d_22.upd\n" +
                                            size + "xyz__commits/__5_5_e_22.wrt\n");
  EXPECT_EQ(commits.writes, (std::vector<std::string>{"__commits/__1_1_a_22.wrt", "__3_3_c_10.ok",
                                                      "__commits/__5_5_e_22.wrt"}));
  ASSERT_EQ(commits.deletes.size(), 1u);
  EXPECT_EQ(commits.deletes[0].first, "__commits/__2_2_b_22.del");
  EXPECT_EQ(commits.deletes[0].second, 25u + 25u + 8u);
}

TEST(ConsolidatedCommits, DamagedIsCorrupt) {
  EXPECT_THROW(parse("__commits/__1_1_a_22.wrt"), CorruptData);
  EXPECT_THROW(parse("something\n"), CorruptData);
  EXPECT_THROW(parse("__commits/__2_2_b_22.del\n\x03"), CorruptData);
  EXPECT_THROW(parse("__commits/__2_2_b_22.del\n" + std::string(8, '\xff')), CorruptData);
}

}  // namespace
}  // namespace penstock::format::tiledb
