#include "format/tiledb/condition/condition_evaluation.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>

namespace penstock::format::tiledb {
namespace {

ArraySchema make_schema() {
  ArraySchema schema;
  Dimension dimension;
  dimension.name = "d";
  schema.dimensions.push_back(dimension);
  Attribute number;
  number.name = "n";
  number.type = DataType::kInt16;
  number.nullable = true;
  Attribute text;
  text.name = "s";
  text.type = DataType::kStringAscii;
  text.cell_val_num = kVarNum;
  schema.attributes = {number, text};
  return schema;
}

template <typename T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

DeleteCondition compare(const std::string& field, ConditionOp op, std::vector<std::byte> value) {
  DeleteCondition condition;
  condition.field = field;
  condition.op = op;
  condition.value = std::move(value);
  return condition;
}

DeleteCondition join(ConditionJoin how, std::vector<DeleteCondition> children) {
  DeleteCondition condition;
  condition.kind = DeleteCondition::Kind::kJoin;
  condition.join = how;
  condition.children = std::move(children);
  return condition;
}

class KeepConditionTest : public ::testing::Test {
 protected:
  KeepConditionTest()
      : numbers_(bytes_of<int16_t>({-2, 0, 3, 9})), text_(bytes_of<char>({'a', 'b', 'b'})) {}

  std::vector<uint8_t> kept(const DeleteCondition& condition, bool absent = false) {
    const KeepCondition keep(condition, make_schema());
    std::vector<FieldCells> cells;
    for (const std::string& field : keep.fields()) {
      FieldCells view;
      view.absent = absent;
      if (field == "n") {
        view.data = numbers_;
        view.validity = validity_;
      } else {
        view.data = text_;
        view.offsets = offsets_;
      }
      cells.push_back(view);
    }
    std::vector<uint8_t> result(4, 9);
    keep.evaluate(cells, result);
    return result;
  }

  std::vector<std::byte> numbers_, text_;
  std::vector<uint8_t> validity_ = {1, 1, 0, 1};
  std::vector<uint64_t> offsets_ = {0, 1, 1, 2, 3};  // "a", "", "b", "b"
};

using Mask = std::vector<uint8_t>;

TEST_F(KeepConditionTest, ComparesAndLeavesNullsOut) {
  EXPECT_EQ(kept(compare("n", ConditionOp::kLess, bytes_of<int16_t>({3}))), (Mask{1, 1, 0, 0}));
  EXPECT_EQ(kept(compare("n", ConditionOp::kNotEqual, bytes_of<int16_t>({0}))), (Mask{1, 0, 0, 1}));
  EXPECT_EQ(kept(compare("s", ConditionOp::kGreaterEqual, bytes_of<char>({'b'}))),
            (Mask{0, 0, 1, 1}));
  EXPECT_EQ(kept(compare("s", ConditionOp::kEqual, {})), (Mask{0, 1, 0, 0}));
  EXPECT_EQ(kept(compare("n", ConditionOp::kEqual, {})), (Mask{0, 0, 1, 0}));
  EXPECT_EQ(kept(compare("n", ConditionOp::kAlwaysTrue, {})), (Mask{1, 1, 0, 1}));
}

TEST_F(KeepConditionTest, JoinsAndSets) {
  DeleteCondition in = compare("n", ConditionOp::kIn, bytes_of<int16_t>({9, -2}));
  in.member_offsets = {0, 2};
  EXPECT_EQ(kept(in), (Mask{1, 0, 0, 1}));
  in.op = ConditionOp::kNotIn;
  EXPECT_EQ(kept(in), (Mask{0, 1, 0, 0}));
  const auto b = compare("s", ConditionOp::kEqual, bytes_of<char>({'b'}));
  EXPECT_EQ(kept(join(ConditionJoin::kOr, {in, b})), (Mask{0, 1, 1, 1}));
  EXPECT_EQ(kept(join(ConditionJoin::kAnd, {in, b})), (Mask{0, 0, 0, 0}));
  EXPECT_EQ(kept(join(ConditionJoin::kOr, {in, b}), true), (Mask{0, 0, 0, 0}));
}

TEST_F(KeepConditionTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(kept(compare("n", ConditionOp::kEqual, bytes_of<int8_t>({1}))), CorruptData);
  EXPECT_THROW(kept(compare("x", ConditionOp::kEqual, {})), CorruptData);
  EXPECT_THROW(kept(compare("n", ConditionOp::kLess, {})), CorruptData);
}

}  // namespace
}  // namespace penstock::format::tiledb
