#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/tiledb/directory/array_directory.h"
#include "io/store.h"

// The condition of a delete commit as a tree: comparisons of one field with stored bytes, joined by
// and, or and not. Source: format_spec/delete_commit_file.md and, for set membership,
// tiledb/sm/query/deletes_and_updates/serialization.cc.
//
// TileDB stores the negation of the delete that the user wrote: the tree is true for the cells that
// stay. This file only parses; the meaning of the bytes depends on the field's type
// (condition_evaluation.h). A plain value.

namespace penstock::format::tiledb {

enum class ConditionOp : uint8_t {
  kLess = 0,
  kLessEqual = 1,
  kGreater = 2,
  kGreaterEqual = 3,
  kEqual = 4,
  kNotEqual = 5,
  kIn = 6,
  kNotIn = 7,
  kAlwaysTrue = 253,
  kAlwaysFalse = 254,
};
enum class ConditionJoin : uint8_t { kAnd = 0, kOr = 1, kNot = 2 };

struct DeleteCondition {
  enum class Kind : uint8_t { kJoin = 0, kCompare = 1 };
  Kind kind = Kind::kCompare;

  /// kJoin
  ConditionJoin join = ConditionJoin::kAnd;
  std::vector<DeleteCondition> children;

  /// kCompare
  ConditionOp op = ConditionOp::kEqual;
  std::string field;
  /// The value. Comparisons with null and with the empty string are both stored with an empty
  /// value; TileDB reads both as the empty string. For kIn and kNotIn all members, concatenated.
  std::vector<std::byte> value;
  /// kIn, kNotIn: where each member starts in `value`; it ends where the next one starts.
  std::vector<uint64_t> member_offsets;

  size_t member_count() const noexcept { return member_offsets.size(); }
  std::span<const std::byte> member(size_t index) const;

  /// Parses the inflated tile of a delete commit. Depth and node count are bounded by the bytes.
  static DeleteCondition parse(std::span<const std::byte> bytes);
};

/// Names of all fields that the condition compares, each once, in order of appearance.
std::vector<std::string> condition_fields(const DeleteCondition& condition);

/// Reads the condition of a delete commit.
DeleteCondition load_delete_condition(const io::Store& store, const DeleteCommit& commit);

}  // namespace penstock::format::tiledb
