#include "format/tiledb/metadata.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

namespace penstock::format::tiledb {
namespace {

class MetadataTest : public testing::Test {
 protected:
  template <typename T>
  void raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void key(const std::string& name, bool deleted = false) {
    raw(static_cast<uint32_t>(name.size()));
    bytes_ += name;
    raw(static_cast<uint8_t>(deleted));
  }
  template <typename T>
  void entry(const std::string& name, DataType type, std::vector<T> values) {
    key(name);
    raw(static_cast<uint8_t>(type));
    raw(static_cast<uint32_t>(values.size()));
    for (const T value : values) raw(value);
  }
  void apply() { apply_metadata(metadata_, std::as_bytes(std::span(bytes_))); }

  std::string bytes_;
  Metadata metadata_;
};

TEST_F(MetadataTest, TypedValues) {
  entry<int64_t>("int", DataType::kInt64, {-3});
  entry<uint8_t>("bool", DataType::kBool, {1});
  entry<float>("float", DataType::kFloat32, {0.5F});
  entry<double>("pair", DataType::kFloat64, {1, 2});
  entry<char>("text", DataType::kStringUtf8, {'a', 'b'});
  entry<char>("empty", DataType::kStringUtf8, {});
  entry<char16_t>("wide", DataType::kStringUtf16, {u'x'});
  apply();
  EXPECT_EQ(metadata_.at("int").as_int(), -3);
  EXPECT_EQ(metadata_.at("int").as_double(), -3.0);
  EXPECT_EQ(metadata_.at("bool").as_int(), 1);
  EXPECT_EQ(metadata_.at("float").as_double(), 0.5);
  EXPECT_EQ(metadata_.at("float").as_int(), std::nullopt);
  EXPECT_EQ(metadata_.at("pair").as_double(), std::nullopt);
  EXPECT_EQ(metadata_.at("pair").bytes.size(), 16u);
  EXPECT_EQ(metadata_.at("text").as_string(), "ab");
  EXPECT_EQ(metadata_.at("text").as_int(), std::nullopt);
  EXPECT_EQ(metadata_.at("empty").as_string(), "");
  EXPECT_EQ(metadata_.at("wide").as_string(), std::nullopt);
  EXPECT_EQ(metadata_.at("int").as_string(), std::nullopt);
}

TEST_F(MetadataTest, LaterEntriesReplaceAndDelete) {
  entry<int32_t>("a", DataType::kInt32, {1});
  entry<int32_t>("b", DataType::kInt32, {2});
  apply();
  bytes_.clear();
  key("a", true);
  entry<int32_t>("b", DataType::kInt32, {3});
  key("never there", true);
  apply();
  EXPECT_FALSE(metadata_.contains("a"));
  EXPECT_EQ(metadata_.at("b").as_int(), 3);
  EXPECT_EQ(metadata_.size(), 1u);
}

TEST_F(MetadataTest, DamagedIsCorrupt) {
  entry<int64_t>("key", DataType::kInt64, {1, 2});
  const std::string whole = bytes_;
  for (size_t length = 1; length < whole.size(); ++length) {
    bytes_ = whole.substr(0, length);
    EXPECT_THROW(apply(), CorruptData) << length;
  }
  bytes_.clear();
  key("k");
  raw(uint8_t{200});
  raw(uint32_t{0});
  EXPECT_THROW(apply(), CorruptData);
  bytes_.clear();
  entry<int64_t>("k", DataType::kInt64, {});
  bytes_.replace(bytes_.size() - 4, 4, "\xff\xff\xff\xff");
  EXPECT_THROW(apply(), CorruptData);
}

TEST_F(MetadataTest, StringsByKey) {
  entry<char>("type", DataType::kStringUtf8, {'X'});
  entry<int32_t>("number", DataType::kInt32, {1});
  apply();
  EXPECT_EQ(metadata_string(metadata_, "type", "here"), "X");
  EXPECT_THROW(metadata_string(metadata_, "number", "here"), CorruptData);
  EXPECT_THROW(metadata_string(metadata_, "absent", "here"), NotFound);
}

}  // namespace
}  // namespace penstock::format::tiledb
