#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "table/filter_plan.h"
#include "table/filter_token.h"

namespace penstock::table {
namespace {

PredicateOp predicate_op(CompareOp op) { return static_cast<PredicateOp>(op); }

PredicateOp negated(CompareOp op) {
  switch (op) {
    case CompareOp::kLess:
      return PredicateOp::kGreaterEqual;
    case CompareOp::kLessEqual:
      return PredicateOp::kGreater;
    case CompareOp::kGreater:
      return PredicateOp::kLessEqual;
    case CompareOp::kGreaterEqual:
      return PredicateOp::kLess;
    case CompareOp::kEqual:
      return PredicateOp::kNotEqual;
    case CompareOp::kNotEqual:
      break;
  }
  return PredicateOp::kEqual;
}

bool is_ordering(CompareOp op) { return op != CompareOp::kEqual && op != CompareOp::kNotEqual; }

/// What an integer, date, time or boolean type holds.
struct IntegerBounds {
  uint64_t smallest_magnitude = 0;  ///< of the smallest value, which is negative or 0
  uint64_t largest = 1;
};

IntegerBounds integer_bounds(DataType type) {
  const size_t unused_bits = 64 - 8 * size_of(type);
  switch (type) {
    case DataType::kBool:
      return {0, 1};
    case DataType::kUInt8:
    case DataType::kUInt16:
    case DataType::kUInt32:
    case DataType::kUInt64:
      return {0, ~uint64_t{0} >> unused_bits};
    default: {
      const uint64_t largest = ~uint64_t{0} >> (unused_bits + 1);
      return {largest + 1, largest};
    }
  }
}

class Binder {
 public:
  /// The columns that a filter names: stored ones first, then constants.
  Binder(std::string_view text, std::span<const std::string> columns,
         std::span<const ColumnInfo> infos, std::span<const std::optional<std::string>> constants)
      : text_(text), columns_(columns), infos_(infos), constants_(constants) {}

  PlanNode bind(const FilterNode& node, bool negate) const {
    switch (node.kind) {
      case FilterNode::Kind::kNot:
        return bind(node.children[0], !negate);
      case FilterNode::Kind::kAnd:
      case FilterNode::Kind::kOr:
        return join(node, negate);
      case FilterNode::Kind::kCompare:
        return leaf(compare(node, negate));
      case FilterNode::Kind::kIn:
        break;
    }
    return leaf(member(node, negate));
  }

 private:
  static PlanNode constant(bool keeps) {
    PlanNode result;
    result.kind = PlanNode::Kind::kConstant;
    result.keeps = keeps;
    return result;
  }

  PlanNode leaf(Predicate predicate) const {
    const size_t stored = columns_.size() - constants_.size();
    if (predicate.column >= stored) {
      return constant(holds_for(predicate, constants_[predicate.column - stored]));
    }
    PlanNode result;
    result.predicate = std::move(predicate);
    return result;
  }

  /// Binds, and so checks, every part. Constant parts decide the result or are removed.
  PlanNode join(const FilterNode& node, bool negate) const {
    const bool all = (node.kind == FilterNode::Kind::kAnd) != negate;
    PlanNode result;
    result.kind = all ? PlanNode::Kind::kAnd : PlanNode::Kind::kOr;
    bool decided = false;
    for (const FilterNode& child : node.children) {
      PlanNode bound = bind(child, negate);
      if (bound.kind != PlanNode::Kind::kConstant) {
        result.children.push_back(std::move(bound));
      } else if (bound.keeps != all) {
        decided = true;
      }
    }
    if (decided || result.children.empty()) return constant(decided ? !all : all);
    if (result.children.size() > 1) return result;
    PlanNode only = std::move(result.children.front());
    return only;
  }

  [[noreturn]] void fail(const Literal& at, const std::string& message) const {
    fail_at(text_, at.begin, at.end, message);
  }
  static std::string named(const ColumnInfo& info) {
    return "column '" + info.name + "' of type " + std::string(name_of(info.type));
  }

  Predicate start(const FilterNode& node) const {
    Predicate predicate;
    const auto found = std::find(columns_.begin(), columns_.end(), node.column);
    predicate.column = static_cast<size_t>(found - columns_.begin());
    const ColumnInfo& info = infos_[predicate.column];
    const bool comparable =
        is_comparable_string(info.type) || is_floating(info.type) || is_integral(info.type);
    const bool null_test =
        node.kind == FilterNode::Kind::kCompare && node.values[0].kind == Literal::Kind::kNull;
    if (!comparable && !null_test) {
      fail_at(text_, node.column_begin, node.column_end,
              named(info) + " cannot be compared with values");
    }
    return predicate;
  }

  static bool is_comparable_string(DataType type) {
    return type == DataType::kStringAscii || type == DataType::kStringUtf8 ||
           type == DataType::kChar;
  }
  static bool is_integral(DataType type) {
    return is_integer(type) || is_datetime(type) || is_time(type) || type == DataType::kBool;
  }

  Predicate compare(const FilterNode& node, bool negate) const {
    Predicate predicate = start(node);
    const ColumnInfo& info = infos_[predicate.column];
    const Literal& value = node.values[0];
    predicate.op = negate ? negated(node.op) : predicate_op(node.op);
    if (value.kind == Literal::Kind::kNull) {
      if (is_ordering(node.op)) fail(value, "None can only be compared with == and !=");
      predicate.op =
          predicate.op == PredicateOp::kEqual ? PredicateOp::kIsNull : PredicateOp::kIsNotNull;
      return predicate;
    }
    if (info.enumerated && !info.ordered && is_ordering(node.op)) {
      fail_at(text_, node.begin, node.end,
              "the categories of column '" + info.name +
                  "' have no order, so only ==, != and in apply to it");
    }
    if (is_comparable_string(info.type)) {
      if (value.kind != Literal::Kind::kString) {
        fail(value, "expected a string in quotes for " + named(info));
      }
      predicate.text = value.text;
    } else if (is_floating(info.type)) {
      predicate.bits = floating(value, info);
    } else {
      compare_integral(predicate, value, info);
    }
    return predicate;
  }

  Predicate member(const FilterNode& node, bool negate) const {
    Predicate predicate = start(node);
    const ColumnInfo& info = infos_[predicate.column];
    predicate.op = node.negated != negate ? PredicateOp::kNotIn : PredicateOp::kIn;
    for (const Literal& value : node.values) {
      if (value.kind == Literal::Kind::kNull) fail(value, "None cannot be in a list");
      if (is_floating(info.type)) {
        predicate.bits_set.insert(floating(value, info));
      } else if (!is_comparable_string(info.type)) {
        const IntegralLiteral number = integral(value, info);
        const bool can_be = number.place == IntegralLiteral::Place::kAtBits;
        if (can_be) predicate.bits_set.insert(number.bits);
      } else if (value.kind == Literal::Kind::kString) {
        predicate.string_set.insert(value.text);
      } else {
        fail(value, "expected a string in quotes for " + named(info));
      }
    }
    return predicate;
  }

  /// Sets what an integer, date, time or boolean column is compared with, by value: a number that
  /// no cell can have equals none, and is above or below those that it is above or below.
  void compare_integral(Predicate& predicate, const Literal& value, const ColumnInfo& info) const {
    const IntegralLiteral number = integral(value, info);
    predicate.bits = number.bits;
    if (number.place == IntegralLiteral::Place::kAtBits) return;
    // Membership of no values: false for every cell, and its opposite true for all but nulls.
    constexpr PredicateOp kNoCell = PredicateOp::kIn, kEveryCell = PredicateOp::kNotIn;
    const bool less = predicate.op == PredicateOp::kLess || predicate.op == PredicateOp::kLessEqual;
    if (predicate.op == PredicateOp::kEqual || predicate.op == PredicateOp::kNotEqual) {
      predicate.op = predicate.op == PredicateOp::kEqual ? kNoCell : kEveryCell;
    } else if (info.enumerated) {
      predicate.op = kNoCell;  // neither less nor greater than any category
    } else if (number.place == IntegralLiteral::Place::kAboveBits) {
      predicate.op = less ? PredicateOp::kLessEqual : PredicateOp::kGreater;
    } else {
      const bool above_all = number.place == IntegralLiteral::Place::kAboveAll;
      predicate.op = less == above_all ? kEveryCell : kNoCell;
    }
  }

  /// A number beside those of an integer type.
  struct IntegralLiteral {
    enum class Place : uint8_t { kAtBits, kAboveBits, kAboveAll, kBelowAll };
    Place place = Place::kAtBits;
    uint64_t bits = 0;  ///< kAtBits: the number; kAboveBits: the next below
  };

  IntegralLiteral integral(const Literal& value, const ColumnInfo& info) const {
    using Place = IntegralLiteral::Place;
    expect_number(value, info);
    bool negative = value.negative, between = false;
    uint64_t magnitude = value.magnitude;
    bool huge = value.huge;
    if (value.kind == Literal::Kind::kFloat) {
      const double below = std::floor(value.real);
      negative = below < 0;
      between = below != value.real;
      huge = !(std::abs(below) < 18446744073709551616.0);  // also inf
      magnitude = huge ? 0 : static_cast<uint64_t>(std::abs(below));
    }
    const IntegerBounds bounds = integer_bounds(info.type);
    const uint64_t most_above = bounds.largest, most_below = bounds.smallest_magnitude;
    if (huge || magnitude > (negative ? most_below : most_above)) {
      return {negative ? Place::kBelowAll : Place::kAboveAll, 0};
    }
    if (between && !negative && magnitude == most_above) return {Place::kAboveAll, 0};
    const uint64_t bits = negative ? 0 - magnitude : magnitude;
    const size_t width = size_of(info.type);
    return {between ? Place::kAboveBits : Place::kAtBits,
            width == 8 ? bits : bits & ((uint64_t{1} << (width * 8)) - 1)};
  }

  void expect_number(const Literal& value, const ColumnInfo& info) const {
    if (value.kind != Literal::Kind::kString) return;
    fail(value, info.type == DataType::kBool
                    ? "expected True or False for " + named(info) + ", found a string"
                    : "expected a number for " + named(info) + ", found a string");
  }

  /// The number's bytes as the nearest of the column's type.
  uint64_t floating(const Literal& value, const ColumnInfo& info) const {
    expect_number(value, info);
    if (value.kind == Literal::Kind::kInteger && std::isinf(value.real)) {
      fail(value, "this integer is out of range for " + named(info));
    }
    if (info.type == DataType::kFloat64) return std::bit_cast<uint64_t>(value.real);
    // The largest double that rounds to a finite float is half a unit in the last place above it.
    constexpr double kMax = std::numeric_limits<float>::max();
    constexpr double kFirstInfinite = kMax + 0x1p103;
    const double real = value.real;
    float narrow = std::numeric_limits<float>::infinity();
    if (std::abs(real) < kFirstInfinite) {
      narrow = std::abs(real) > kMax ? std::numeric_limits<float>::max()
                                     : static_cast<float>(std::abs(real));
    }
    return std::bit_cast<uint32_t>(std::signbit(real) ? -narrow : narrow);
  }

  std::string_view text_;
  std::span<const std::string> columns_;
  std::span<const ColumnInfo> infos_;
  std::span<const std::optional<std::string>> constants_;
};

void check_order(const FilterNode& node, std::string_view text,
                 std::span<const ColumnInfo> joined) {
  for (const FilterNode& child : node.children) check_order(child, text, joined);
  if (node.kind != FilterNode::Kind::kCompare || !is_ordering(node.op)) return;
  for (const ColumnInfo& info : joined) {
    if (info.name != node.column || !info.enumerated || info.ordered) continue;
    fail_at(text, node.begin, node.end,
            "the categories of column '" + info.name +
                "' have no order that all parts share, so only ==, != and in apply to it");
  }
}

struct ColumnPlace {
  std::string name;
  size_t begin = 0, end = 0;
};

void collect_columns(const FilterNode& node, std::vector<ColumnPlace>& out) {
  if (node.kind == FilterNode::Kind::kCompare || node.kind == FilterNode::Kind::kIn) {
    const bool known = std::any_of(out.begin(), out.end(),
                                   [&](const ColumnPlace& c) { return c.name == node.column; });
    if (!known) out.push_back({node.column, node.column_begin, node.column_end});
  }
  for (const FilterNode& child : node.children) collect_columns(child, out);
}

[[noreturn]] void fail_unknown(std::string_view text, const ColumnPlace& column,
                               std::span<const ColumnInfo> schema,
                               std::span<const ConstantColumn> constants) {
  std::string known;
  for (const ColumnInfo& info : schema) known += (known.empty() ? "" : ", ") + info.name;
  for (const ConstantColumn& each : constants) {
    known += (known.empty() ? "" : ", ") + each.info.name;
  }
  try {
    fail_at(text, column.begin, column.end,
            "there is no column '" + column.name + "'; choose from " + known);
  } catch (const InvalidArgument& error) {
    throw NotFound(error.what());
  }
}

}  // namespace

FilterExpression FilterExpression::parse(std::string_view text) {
  FilterExpression result;
  result.text_ = std::make_shared<const std::string>(text);
  result.root_ = std::make_shared<const FilterNode>(parse_filter(*result.text_));
  std::vector<ColumnPlace> places;
  collect_columns(*result.root_, places);
  for (ColumnPlace& place : places) result.columns_.push_back(std::move(place.name));
  return result;
}

void FilterExpression::expect_one_order(std::span<const ColumnInfo> joined) const {
  check_order(*root_, *text_, joined);
}

BoundFilter FilterExpression::bind(std::span<const ColumnInfo> schema,
                                   std::span<const ConstantColumn> constants) const {
  auto plan = std::make_shared<BoundFilter::Plan>();
  std::vector<ColumnPlace> places;
  collect_columns(*root_, places);
  std::vector<ColumnInfo> constant_infos;
  std::vector<std::optional<std::string>> texts;
  for (const ColumnPlace& place : places) {
    const auto found = std::find_if(schema.begin(), schema.end(), [&](const ColumnInfo& info) {
      return info.name == place.name;
    });
    if (found != schema.end()) {
      plan->columns.push_back(place.name);
      plan->infos.push_back(*found);
      continue;
    }
    const auto constant =
        std::find_if(constants.begin(), constants.end(),
                     [&](const ConstantColumn& each) { return each.info.name == place.name; });
    if (constant == constants.end()) fail_unknown(*text_, place, schema, constants);
    if (constant->text && !is_string(constant->info.type)) {
      throw InvalidArgument("a constant column with a text must be of strings, column '" +
                            place.name + "'");
    }
    constant_infos.push_back(constant->info);
    texts.push_back(constant->text);
  }
  std::vector<std::string> columns = plan->columns;
  std::vector<ColumnInfo> infos = plan->infos;
  for (ColumnInfo& info : constant_infos) {
    columns.push_back(info.name);
    infos.push_back(std::move(info));
  }
  plan->root = Binder(*text_, columns, infos, texts).bind(*root_, false);
  return BoundFilter(std::move(plan));
}

}  // namespace penstock::table
