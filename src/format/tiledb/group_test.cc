#include "format/tiledb/group.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

namespace penstock::format::tiledb {
namespace {

class Details {
 public:
  Details(uint32_t version, uint64_t count) {
    raw(version);
    raw(count);
  }
  template <typename T>
  void raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  Details& member(uint32_t version, uint8_t type, bool relative, const std::string& uri,
                  const std::string& name, bool deleted = false) {
    raw(version);
    raw(type);
    raw(static_cast<uint8_t>(relative));
    raw(static_cast<uint64_t>(uri.size()));
    bytes_ += uri;
    raw(static_cast<uint8_t>(!name.empty()));
    if (!name.empty()) {
      raw(static_cast<uint64_t>(name.size()));
      bytes_ += name;
    }
    if (version >= 2) raw(static_cast<uint8_t>(deleted));
    return *this;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

TEST(Group, MembersOfBothVersions) {
  Group group;
  group.apply_details(Details(1, 2)
                          .member(1, 1, true, "ms", "ms")
                          .member(1, 2, false, "file:///data/obs/", "obs")
                          .bytes());
  group.apply_details(Details(2, 1).member(2, 2, false, "s3://bucket/x", "").bytes());
  ASSERT_EQ(group.members().size(), 3u);
  EXPECT_EQ(group.member("ms").type, ObjectType::kGroup);
  EXPECT_EQ(group.member("obs").path, "/data/obs");
  EXPECT_EQ(group.member("s3://bucket/x").path, "s3://bucket/x");
  EXPECT_EQ(group.find("none"), nullptr);
  try {
    group.member("none");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_NE(std::string(error.what()).find("ms, obs, s3://bucket/x"), std::string::npos);
  }
}

TEST(Group, LaterFilesReplaceAndDelete) {
  Group group;
  group.apply_details(
      Details(2, 2).member(2, 1, true, "a", "x").member(2, 1, true, "b", "y").bytes());
  group.apply_details(
      Details(2, 2).member(2, 1, true, "a", "x", true).member(2, 2, true, "c", "y").bytes());
  ASSERT_EQ(group.members().size(), 1u);
  EXPECT_EQ(group.member("y").uri, "c");
  EXPECT_EQ(group.member("y").type, ObjectType::kArray);
}

TEST(Group, DamagedDetails) {
  Group group;
  const Details details = Details(2, 1).member(2, 1, true, "a", "x");
  const auto whole = details.bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(group.apply_details(whole.first(length)), CorruptData) << length;
  }
  EXPECT_THROW(group.apply_details(Details(3, 0).bytes()), Unsupported);
  EXPECT_THROW(group.apply_details(Details(2, 1).member(3, 1, true, "a", "x").bytes()),
               Unsupported);
  EXPECT_THROW(group.apply_details(Details(2, 1).member(2, 9, true, "a", "x").bytes()),
               CorruptData);
  EXPECT_THROW(group.apply_details(Details(2, UINT64_MAX).bytes()), CorruptData);
  EXPECT_THROW(group.apply_details(Details(2, 0).member(2, 1, true, "a", "x").bytes()),
               CorruptData);
}

}  // namespace
}  // namespace penstock::format::tiledb
