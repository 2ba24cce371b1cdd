#include "format/tiledb/schema/array_schema.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <functional>

#include "base/testing/test_data.h"
#include "format/tiledb/directory/array_directory.h"
#include "format/tiledb/generic_tile.h"
#include "format/tiledb/schema/enumeration.h"

namespace penstock::format::tiledb {
namespace {

std::string golden_path(const std::string& name) { return test_data("tiledb_golden/" + name); }

ArraySchemaPtr latest_schema(const std::string& name) {
  const auto directory = ArrayDirectory::load(io::file_store(), golden_path(name));
  return directory.load_schemas().at(directory.latest_schema_name());
}

TEST(ArraySchema, IntegerBoundsOfDimensions) {
  const auto schema = latest_schema("types");
  const Dimension& x = schema->dimensions[0];
  EXPECT_EQ(x.domain_min(), -100);
  EXPECT_EQ(x.domain_max(), 100);
  EXPECT_EQ(x.extent(), 25);
  EXPECT_EQ(schema->find_dimension("when"), 1u);
  EXPECT_EQ(schema->find_dimension("i1"), std::nullopt);
  EXPECT_EQ(schema->find_attribute("utf8"), 13u);
  EXPECT_EQ(schema->attributes[16].cell_bytes(), 8u);  // a pair of int32
  EXPECT_EQ(latest_schema("hilbert")->dimensions[0].has_extent(), false);
  EXPECT_EQ(latest_schema("dense")->cells_per_space_tile(), 20u);
}

TEST(ArraySchema, CurrentDomainOfStrings) {
  const auto schema = latest_schema("current_domain/sparse");
  EXPECT_TRUE(schema->dimensions[0].var_length());
  EXPECT_EQ(schema->current_domain.at(0).min_string(), "aa");
  EXPECT_EQ(schema->current_domain.at(0).max_string(), "zzz");
  EXPECT_EQ(schema->current_domain.at(1).max_as<int64_t>(), 99);
  EXPECT_THROW(schema->current_domain.at(1).max_as<int32_t>(), Internal);
}

class SchemaBytesTest : public testing::Test {
 protected:
  SchemaBytesTest() {
    const auto directory = ArrayDirectory::load(io::file_store(), golden_path("vacuumed"));
    const GenericTile tile =
        read_generic_tile(*io::file_store(), directory.schema_path(directory.latest_schema_name()));
    bytes_.assign(reinterpret_cast<const char*>(tile.bytes.data()), tile.bytes.size());
  }
  ArraySchema parse_with(const std::function<void(std::string&)>& change) const {
    std::string bytes = bytes_;
    change(bytes);
    return ArraySchema::parse(std::as_bytes(std::span(bytes)), "s");
  }
  std::string bytes_;
};

// Version, allows duplicates, array type, tile order, cell order, capacity lead the bytes.
TEST_F(SchemaBytesTest, LeadingFields) {
  EXPECT_TRUE(parse_with([](auto&) {}).allows_duplicates);
  EXPECT_THROW(parse_with([](auto& b) { b[0] = 24; }), Unsupported);
  EXPECT_THROW(parse_with([](auto& b) { b[0] = 4; }), Unsupported);
  EXPECT_THROW(parse_with([](auto& b) { b[4] = 2; }), CorruptData);
  EXPECT_THROW(parse_with([](auto& b) { b[5] = 2; }), CorruptData);
  EXPECT_THROW(parse_with([](auto& b) { b[6] = 4; }), CorruptData);  // tiles in Hilbert order
  EXPECT_EQ(parse_with([](auto& b) { b[7] = 4; }).cell_order, Layout::kHilbert);
  EXPECT_THROW(parse_with([](auto& b) { b[7] = 3; }), CorruptData);
  EXPECT_THROW(parse_with([](auto& b) { b.replace(8, 8, 8, '\0'); }), CorruptData);
  EXPECT_THROW(parse_with([](auto& b) { b += 'x'; }), CorruptData);
}

TEST_F(SchemaBytesTest, CutShortIsCorrupt) {
  for (size_t length = 0; length < bytes_.size(); ++length) {
    EXPECT_THROW(parse_with([&](auto& b) { b.resize(length); }), CorruptData) << length;
  }
}

TEST(Enumeration, ValuesAndOrder) {
  const std::string path = golden_path("enumerated");
  const auto schema = latest_schema("enumerated");
  const auto load = [&](const char* name) {
    return load_enumeration(*io::file_store(), path, *schema, name);
  };
  const auto cell_type = load("cell_type");  // extended
  ASSERT_EQ(cell_type->size(), 5u);
  EXPECT_EQ(cell_type->string_value(2), "NK cell");
  EXPECT_EQ(cell_type->string_value(4), "é");
  EXPECT_FALSE(cell_type->ordered);
  EXPECT_TRUE(load("stage")->ordered);
  EXPECT_EQ(load("number")->type, DataType::kInt64);
  EXPECT_EQ(load("number")->size(), 3u);
  EXPECT_EQ(load("empty")->size(), 0u);
  try {
    load("absent");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_NE(std::string(error.what()).find("cell_type, empty, number"), std::string::npos);
  }
}

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string enumeration_bytes(const std::string& data, const std::vector<uint64_t>& offsets) {
  std::string bytes = raw(uint32_t{0}) + raw(uint32_t{1}) + "n" + raw(uint32_t{1}) + "f" +
                      raw(static_cast<uint8_t>(DataType::kStringUtf8)) + raw(kVarNum) +
                      raw(uint8_t{0}) + raw(static_cast<uint64_t>(data.size())) + data +
                      raw(static_cast<uint64_t>(8 * offsets.size()));
  for (const uint64_t offset : offsets) bytes += raw(offset);
  return bytes;
}

Enumeration parse(const std::string& bytes) {
  return Enumeration::parse(std::as_bytes(std::span(bytes)));
}

TEST(Enumeration, OffsetsAreChecked) {
  const std::string bytes = enumeration_bytes("abc", {0, 1, 1, 3});
  const Enumeration good = parse(bytes);
  EXPECT_EQ(good.string_value(0), "a");
  EXPECT_EQ(good.string_value(1), "");
  EXPECT_EQ(good.string_value(2), "bc");
  EXPECT_EQ(good.string_value(3), "");
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(parse(bytes.substr(0, length)), CorruptData) << length;
  }
  EXPECT_THROW(parse(enumeration_bytes("abc", {1})), CorruptData);
  EXPECT_THROW(parse(enumeration_bytes("abc", {0, 2, 1})), CorruptData);
  EXPECT_THROW(parse(enumeration_bytes("abc", {0, 4})), CorruptData);
  EXPECT_THROW(parse(enumeration_bytes("abc", {})), CorruptData);
}

}  // namespace
}  // namespace penstock::format::tiledb
