#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "table/filter_expression.h"
#include "table/filter_syntax.h"
#include "table/value_set.h"

// The executable form of a filter: `not` is pushed down to the comparisons, and literals become
// values of the columns' types. Made by filter_binding.cc, run by filter_evaluation.cc.

namespace penstock::table {

enum class PredicateOp : uint8_t {
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kIn,
  kNotIn,
  kIsNull,
  kIsNotNull,
};

struct Predicate {
  size_t column = 0;  ///< place in BoundFilter::columns()
  PredicateOp op = PredicateOp::kEqual;
  uint64_t bits = 0;  ///< fixed-size types: the value's bytes, little endian, zero above its width
  std::string text;   ///< string types
  BitsSet bits_set;   ///< kIn, kNotIn
  StringSet string_set;
};

struct PlanNode {
  enum class Kind : uint8_t { kPredicate, kAnd, kOr, kConstant };
  Kind kind = Kind::kPredicate;
  bool keeps = false;  ///< kConstant (only at the root): keep every row, or none
  Predicate predicate;
  std::vector<PlanNode> children;
};

struct BoundFilter::Plan {
  std::vector<std::string> columns;
  std::vector<ColumnInfo> infos;  ///< of the columns
  PlanNode root;
};

/// Whether the predicate holds for a text, or for null.
bool holds_for(const Predicate& predicate, const std::optional<std::string>& text);

}  // namespace penstock::table
