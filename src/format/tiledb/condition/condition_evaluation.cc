#include "format/tiledb/condition/condition_evaluation.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/concat.h"
#include "base/types/visit_comparison.h"
#include "base/types/visit_type.h"

namespace penstock::format::tiledb {

struct KeepCondition::Node {
  DeleteCondition::Kind kind = DeleteCondition::Kind::kCompare;
  ConditionJoin join = ConditionJoin::kAnd;
  std::vector<Node> children;

  size_t field = 0;  // place in fields()
  DataType type = DataType::kInt64;
  bool variable = false;
  bool nullable = false;
  ConditionOp op = ConditionOp::kEqual;
  bool with_null = false;
  std::string value;
  std::vector<std::string> members;  // owns what member_set views
  std::unordered_set<std::string_view> member_set;
};

namespace {

using Node = KeepCondition::Node;

struct FieldType {
  DataType type = DataType::kInt64;
  uint32_t cell_val_num = 1;
  bool nullable = false;
};

FieldType field_type(const ArraySchema& schema, const std::string& name) {
  if (const auto dimension = schema.find_dimension(name)) {
    return {schema.dimensions[*dimension].type, schema.dimensions[*dimension].cell_val_num, false};
  }
  if (const auto attribute = schema.find_attribute(name)) {
    const Attribute& found = schema.attributes[*attribute];
    return {found.type, found.cell_val_num, found.nullable};
  }
  throw CorruptData("a delete condition compares field '" + name +
                    "', which the array does not have");
}

bool is_order(ConditionOp op) { return op <= ConditionOp::kGreaterEqual; }

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Binds one comparison to its field.
void bind_comparison(const DeleteCondition& condition, const ArraySchema& schema, Node& node) {
  const FieldType field = field_type(schema, condition.field);
  node.op = condition.op;
  node.type = field.type;
  node.nullable = field.nullable;
  node.variable = field.cell_val_num == kVarNum || is_string(field.type);
  node.value = as_text(condition.value);
  const bool membership = node.op == ConditionOp::kIn || node.op == ConditionOp::kNotIn;
  const bool always = node.op == ConditionOp::kAlwaysTrue || node.op == ConditionOp::kAlwaysFalse;
  if (membership) {
    for (size_t i = 0; i < condition.member_count(); ++i) {
      node.members.push_back(as_text(condition.member(i)));
    }
    node.member_set.insert(node.members.begin(), node.members.end());
  }
  if (always || node.variable) return;
  const size_t width = size_of(field.type);
  if (field.cell_val_num != 1) {
    throw Unsupported(concat("a delete condition on field '", condition.field, "' of ",
                             field.cell_val_num, " values a cell"));
  }
  // An empty value means null. For strings it is the empty string, as TileDB reads it.
  node.with_null = !membership && node.value.empty();
  if (node.with_null && is_order(node.op)) {
    throw CorruptData("a delete condition orders field '" + condition.field + "' by null");
  }
  if (!membership && !node.with_null && node.value.size() != width) {
    throw CorruptData(concat("a delete condition compares field '", condition.field, "' of ", width,
                             " bytes with ", node.value.size()));
  }
}

Node bind_node(const DeleteCondition& condition, const ArraySchema& schema,
               const std::vector<std::string>& fields) {
  Node node;
  node.kind = condition.kind;
  if (condition.kind == DeleteCondition::Kind::kJoin) {
    node.join = condition.join;
    if (condition.join == ConditionJoin::kNot) {
      throw Unsupported("a delete condition with a stored NOT, which TileDB never writes");
    }
    node.children.reserve(condition.children.size());
    for (const DeleteCondition& child : condition.children) {
      node.children.push_back(bind_node(child, schema, fields));
    }
    return node;
  }
  node.field = static_cast<size_t>(std::find(fields.begin(), fields.end(), condition.field) -
                                   fields.begin());
  bind_comparison(condition, schema, node);
  return node;
}

void compare_variable(const Node& node, const FieldCells& cells, std::span<uint8_t> keep) {
  const auto* bytes = reinterpret_cast<const char*>(cells.data.data());
  const size_t width = size_of(node.type);  // strings of one character a cell have no offsets
  const auto text = [&](size_t i) {
    return cells.offsets.empty() ? std::string_view(bytes + i * width, width)
                                 : std::string_view(bytes + cells.offsets[i],
                                                    cells.offsets[i + 1] - cells.offsets[i]);
  };
  if (node.op == ConditionOp::kIn || node.op == ConditionOp::kNotIn) {
    for (size_t i = 0; i < keep.size(); ++i) {
      keep[i] = node.member_set.contains(text(i)) == (node.op == ConditionOp::kIn);
    }
    return;
  }
  visit_comparison(node.op, [&](auto compare) {
    for (size_t i = 0; i < keep.size(); ++i) {
      keep[i] = compare(text(i), std::string_view(node.value));
    }
  });
}

void compare_fixed(const Node& node, const FieldCells& cells, std::span<uint8_t> keep) {
  if (node.op == ConditionOp::kIn || node.op == ConditionOp::kNotIn) {
    const size_t width = size_of(node.type);
    const auto* bytes = reinterpret_cast<const char*>(cells.data.data());
    for (size_t i = 0; i < keep.size(); ++i) {
      keep[i] =
          node.member_set.contains({bytes + i * width, width}) == (node.op == ConditionOp::kIn);
    }
    return;
  }
  const auto compare_all = [&](auto identity) {
    using T = typename decltype(identity)::type;
    T value;
    std::memcpy(&value, node.value.data(), sizeof(T));
    visit_comparison(node.op, [&](auto compare) {
      for (size_t i = 0; i < keep.size(); ++i) {
        T cell;
        std::memcpy(&cell, cells.data.data() + i * sizeof(T), sizeof(T));
        keep[i] = compare(cell, value);
      }
    });
  };
  visit_number(stored_type(node.type), compare_all, "cells in a delete condition");
}

void compare_cells(const Node& node, const FieldCells& cells, std::span<uint8_t> keep) {
  if (cells.absent || node.op == ConditionOp::kAlwaysFalse) {
    std::fill(keep.begin(), keep.end(), uint8_t{0});
    return;
  }
  if (node.op == ConditionOp::kAlwaysTrue) {
    std::fill(keep.begin(), keep.end(), uint8_t{1});
  } else if (node.with_null) {
    const bool equal = node.op == ConditionOp::kEqual;
    for (size_t i = 0; i < keep.size(); ++i) {
      const bool is_null = !cells.validity.empty() && cells.validity[i] == 0;
      keep[i] = is_null == equal;
    }
    return;
  } else if (node.variable) {
    compare_variable(node, cells, keep);
  } else {
    compare_fixed(node, cells, keep);
  }
  for (size_t i = 0; i < cells.validity.size(); ++i) {
    if (cells.validity[i] == 0) keep[i] = 0;
  }
}

void run(const Node& node, std::span<const FieldCells> cells, std::span<uint8_t> keep) {
  if (node.kind == DeleteCondition::Kind::kCompare) {
    return compare_cells(node, cells[node.field], keep);
  }
  const bool all = node.join == ConditionJoin::kAnd;
  std::fill(keep.begin(), keep.end(), static_cast<uint8_t>(all ? 1 : 0));
  std::vector<uint8_t> other(keep.size());
  for (const Node& child : node.children) {
    run(child, cells, other);
    for (size_t i = 0; i < keep.size(); ++i) {
      keep[i] = static_cast<uint8_t>(all ? keep[i] & other[i] : keep[i] | other[i]);
    }
  }
}

}  // namespace

KeepCondition::KeepCondition(const DeleteCondition& condition, const ArraySchema& schema)
    : fields_(condition_fields(condition)),
      root_(std::make_shared<const Node>(bind_node(condition, schema, fields_))) {}

void KeepCondition::evaluate(std::span<const FieldCells> cells, std::span<uint8_t> keep) const {
  if (cells.size() != fields_.size()) {
    throw Internal(concat("a delete condition of ", fields_.size(), " fields got ", cells.size()));
  }
  run(*root_, cells, keep);
}

void FragmentDeletes::apply(std::span<const FieldCells> cells, std::span<const uint64_t> timestamps,
                            std::span<const uint64_t> delete_timestamps,
                            std::span<uint8_t> keep) const {
  if (use_delete_timestamps_) {
    // A cell that is not deleted has the largest time.
    constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
    for (size_t i = 0; i < keep.size(); ++i) {
      if (delete_timestamps[i] <= read_time_ && delete_timestamps[i] != kNever) keep[i] = 0;
    }
  }
  std::vector<uint8_t> kept(conditions_.empty() ? 0 : keep.size());
  std::vector<FieldCells> chosen;
  for (const Step& step : conditions_) {
    chosen.clear();
    for (const size_t place : step.field_places) chosen.push_back(cells[place]);
    step.condition->evaluate(chosen, kept);
    for (size_t i = 0; i < keep.size(); ++i) {
      const bool newer = step.only_up_to && timestamps[i] > *step.only_up_to;
      if (kept[i] == 0 && !newer) keep[i] = 0;
    }
  }
}

DeleteFilter DeleteFilter::load(const ArrayDirectory& directory, const ArraySchema& schema) {
  DeleteFilter filter;
  filter.read_time_ = directory.time_range().end;
  for (const DeleteCommit& commit : directory.deletes()) {
    filter.commits_.push_back(with_place(
        [&] {
          const DeleteCondition condition = load_delete_condition(*directory.store(), commit);
          return Commit{commit.marker, commit.timestamp,
                        std::make_shared<const KeepCondition>(condition, schema)};
        },
        [&] { return "delete commit " + commit.path; }));
  }
  return filter;
}

FragmentDeletes DeleteFilter::for_fragment(const FragmentMetadata& fragment) const {
  FragmentDeletes deletes;
  deletes.read_time_ = read_time_;
  deletes.use_delete_timestamps_ = fragment.has_delete_metadata();
  const TimeRange written = fragment.location().name.time;
  for (const Commit& commit : commits_) {
    if (commit.timestamp < written.start) continue;
    if (fragment.has_delete_metadata()) {
      const auto& processed = fragment.processed_conditions();
      if (std::find(processed.begin(), processed.end(), commit.marker) != processed.end()) continue;
    }
    FragmentDeletes::Step step;
    step.condition = commit.condition;
    if (fragment.has_timestamps() && commit.timestamp <= written.end) {
      step.only_up_to = commit.timestamp;
      deletes.needs_timestamps_ = true;
    }
    for (const std::string& name : commit.condition->fields()) {
      const auto found = std::find(deletes.fields_.begin(), deletes.fields_.end(), name);
      step.field_places.push_back(static_cast<size_t>(found - deletes.fields_.begin()));
      if (found == deletes.fields_.end()) deletes.fields_.push_back(name);
    }
    deletes.conditions_.push_back(std::move(step));
  }
  return deletes;
}

}  // namespace penstock::format::tiledb
