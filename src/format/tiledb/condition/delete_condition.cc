#include "format/tiledb/condition/delete_condition.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "format/tiledb/generic_tile.h"

namespace penstock::format::tiledb {
namespace {

// Deeper than any tree that is written; keeps hostile bytes from exhausting the stack.
constexpr int kMaxDepth = 500;
constexpr uint64_t kLeastNodeBytes = 10;

DeleteCondition parse_node(ByteReader& reader, int depth);

void parse_join(ByteReader& reader, int depth, DeleteCondition& node) {
  const auto join = reader.read<uint8_t>("combination operator");
  if (join > static_cast<uint8_t>(ConditionJoin::kNot)) {
    throw CorruptData(concat("combination operator is unknown: ", join));
  }
  node.join = static_cast<ConditionJoin>(join);
  const auto count = reader.read<uint64_t>("number of children");
  reader.expect_items(count, kLeastNodeBytes, "children");
  if (count == 0 || (node.join == ConditionJoin::kNot && count != 1)) {
    throw CorruptData(concat("combination ", join, " has ", count, " children"));
  }
  for (uint64_t i = 0; i < count; ++i) node.children.push_back(parse_node(reader, depth + 1));
}

ConditionOp parse_op(ByteReader& reader) {
  const auto op = reader.read<uint8_t>("comparison operator");
  if (op > static_cast<uint8_t>(ConditionOp::kNotIn) &&
      op != static_cast<uint8_t>(ConditionOp::kAlwaysTrue) &&
      op != static_cast<uint8_t>(ConditionOp::kAlwaysFalse)) {
    throw CorruptData(concat("comparison operator is unknown: ", op));
  }
  return static_cast<ConditionOp>(op);
}

void parse_members(ByteReader& reader, DeleteCondition& node) {
  const auto length = reader.read<uint64_t>("set offsets size");
  const auto bytes = reader.take(length, "set offsets");
  if (bytes.size() % 8 != 0) {
    throw CorruptData(concat("set offsets size is no multiple of 8: ", length));
  }
  node.member_offsets.resize(bytes.size() / 8);
  if (!bytes.empty()) std::memcpy(node.member_offsets.data(), bytes.data(), bytes.size());
  uint64_t previous = 0;
  for (const uint64_t offset : node.member_offsets) {
    if (offset < previous || offset > node.value.size()) {
      throw CorruptData(concat("set offset is out of order or range: ", offset));
    }
    previous = offset;
  }
}

DeleteCondition parse_node(ByteReader& reader, int depth) {
  if (depth > kMaxDepth) {
    throw CorruptData(concat("condition is nested deeper than ", kMaxDepth));
  }
  DeleteCondition node;
  const auto kind = reader.read<uint8_t>("condition node type");
  if (kind == static_cast<uint8_t>(DeleteCondition::Kind::kJoin)) {
    node.kind = DeleteCondition::Kind::kJoin;
    parse_join(reader, depth, node);
    return node;
  }
  if (kind != static_cast<uint8_t>(DeleteCondition::Kind::kCompare)) {
    throw CorruptData(concat("condition node type is unknown: ", kind));
  }
  node.kind = DeleteCondition::Kind::kCompare;
  node.op = parse_op(reader);
  node.field = reader.take_name(reader.read<uint32_t>("field name length"), "field name");
  const auto value = reader.take(reader.read<uint64_t>("value size"), "value");
  node.value.assign(value.begin(), value.end());
  if (node.op == ConditionOp::kIn || node.op == ConditionOp::kNotIn) parse_members(reader, node);
  return node;
}

void collect_fields(const DeleteCondition& condition, std::vector<std::string>& names) {
  for (const DeleteCondition& child : condition.children) collect_fields(child, names);
  if (condition.kind != DeleteCondition::Kind::kCompare) return;
  if (std::find(names.begin(), names.end(), condition.field) == names.end()) {
    names.push_back(condition.field);
  }
}

}  // namespace

std::span<const std::byte> DeleteCondition::member(size_t index) const {
  const uint64_t begin = member_offsets[index];
  const uint64_t end = index + 1 < member_offsets.size() ? member_offsets[index + 1] : value.size();
  return std::span(value).subspan(begin, end - begin);
}

DeleteCondition DeleteCondition::parse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  DeleteCondition condition = parse_node(reader, 0);
  if (!reader.empty()) {
    throw CorruptData(concat("condition has bytes left over: ", reader.remaining()));
  }
  return condition;
}

std::vector<std::string> condition_fields(const DeleteCondition& condition) {
  std::vector<std::string> names;
  collect_fields(condition, names);
  return names;
}

DeleteCondition load_delete_condition(const io::Store& store, const DeleteCommit& commit) {
  const GenericTile tile = read_generic_tile(store, commit.path, commit.offset);
  return with_place([&] { return DeleteCondition::parse(tile.bytes.span()); },
                    [&] { return commit.marker + " in " + commit.path; });
}

}  // namespace penstock::format::tiledb
