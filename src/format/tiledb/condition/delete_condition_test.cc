#include "format/tiledb/condition/delete_condition.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

namespace penstock::format::tiledb {
namespace {

// Serializes trees as TileDB does.
template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string compare(uint8_t op, const std::string& field, const std::string& value) {
  return raw(uint8_t{1}) + raw(op) + raw(static_cast<uint32_t>(field.size())) + field +
         raw(static_cast<uint64_t>(value.size())) + value;
}

std::string members(uint8_t op, const std::string& value, const std::vector<uint64_t>& offsets) {
  std::string bytes = compare(op, "f", value) + raw(static_cast<uint64_t>(8 * offsets.size()));
  for (const uint64_t offset : offsets) bytes += raw(offset);
  return bytes;
}

std::string join(uint8_t op, const std::vector<std::string>& children) {
  std::string bytes = raw(uint8_t{0}) + raw(op) + raw(static_cast<uint64_t>(children.size()));
  for (const std::string& child : children) bytes += child;
  return bytes;
}

DeleteCondition parse(const std::string& bytes) {
  return DeleteCondition::parse(std::as_bytes(std::span(bytes)));
}

TEST(DeleteCondition, Tree) {
  const std::string bytes = join(1, {compare(0, "a", "12345678"), join(2, {compare(4, "b", "")}),
                                     join(0, {compare(3, "a", "x"), compare(254, "c", "")})});
  const DeleteCondition condition = parse(bytes);
  EXPECT_EQ(condition.join, ConditionJoin::kOr);
  ASSERT_EQ(condition.children.size(), 3u);
  EXPECT_EQ(condition.children[0].op, ConditionOp::kLess);
  EXPECT_EQ(condition.children[0].value.size(), 8u);
  EXPECT_EQ(condition.children[1].join, ConditionJoin::kNot);
  EXPECT_TRUE(condition.children[1].children[0].value.empty());
  EXPECT_EQ(condition.children[2].children[1].op, ConditionOp::kAlwaysFalse);
  EXPECT_EQ(condition_fields(condition), (std::vector<std::string>{"a", "b", "c"}));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(parse(bytes.substr(0, length)), CorruptData) << length;
  }
  EXPECT_THROW(parse(bytes + "x"), CorruptData);
}

TEST(DeleteCondition, SetMembers) {
  const DeleteCondition condition = parse(members(6, "abcdef", {0, 2, 2, 6}));
  ASSERT_EQ(condition.member_count(), 4u);
  EXPECT_EQ(condition.member(0).size(), 2u);
  EXPECT_EQ(condition.member(1).size(), 0u);
  EXPECT_EQ(condition.member(2).size(), 4u);
  EXPECT_EQ(condition.member(3).size(), 0u);
  EXPECT_THROW(parse(members(7, "abc", {0, 4})), CorruptData);
  EXPECT_THROW(parse(members(7, "abc", {2, 1})), CorruptData);
}

TEST(DeleteCondition, NonsenseIsCorrupt) {
  EXPECT_THROW(parse(compare(8, "a", "x")), CorruptData);
  EXPECT_THROW(parse(join(3, {compare(0, "a", "x")})), CorruptData);
  EXPECT_THROW(parse(join(0, {})), CorruptData);
  EXPECT_THROW(parse(join(2, {compare(0, "a", "x"), compare(0, "a", "x")})), CorruptData);
  EXPECT_THROW(parse(raw(uint8_t{2}) + compare(0, "a", "x")), CorruptData);
}

TEST(DeleteCondition, DepthIsBounded) {
  std::string bytes = compare(0, "a", "x");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += raw(uint8_t{0}) + raw(uint8_t{0}) + raw(uint64_t{1});
  EXPECT_THROW(parse(deep + bytes), CorruptData);
  std::string shallow;
  for (int i = 0; i < 100; ++i) shallow += raw(uint8_t{0}) + raw(uint8_t{0}) + raw(uint64_t{1});
  EXPECT_NO_THROW(parse(shallow + bytes));
}

}  // namespace
}  // namespace penstock::format::tiledb
