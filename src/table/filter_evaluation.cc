#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>

#include "table/filter_plan.h"

namespace penstock::table {
namespace {

template <typename T>
T value_of(uint64_t bits) noexcept {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
uint64_t bits_of(T value) noexcept {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

/// Calls `body` with a value of the C++ type that holds cells of `type`.
template <typename Body>
void with_fixed_type(DataType type, Body&& body) {
  switch (type) {
    case DataType::kInt8:
      return body(int8_t{});
    case DataType::kUInt8:
    case DataType::kBool:
      return body(uint8_t{});
    case DataType::kInt16:
      return body(int16_t{});
    case DataType::kUInt16:
      return body(uint16_t{});
    case DataType::kInt32:
      return body(int32_t{});
    case DataType::kUInt32:
      return body(uint32_t{});
    case DataType::kUInt64:
      return body(uint64_t{});
    case DataType::kFloat32:
      return body(float{});
    case DataType::kFloat64:
      return body(double{});
    default:
      if (type == DataType::kInt64 || is_datetime(type) || is_time(type)) return body(int64_t{});
  }
  throw Internal("filter on a column of type " + std::string(name_of(type)));
}

/// Calls `body` with the comparison of `op` as a function object. Set membership is not one.
template <typename Body>
void with_comparison(PredicateOp op, Body&& body) {
  switch (op) {
    case PredicateOp::kLess:
      return body(std::less<>{});
    case PredicateOp::kLessEqual:
      return body(std::less_equal<>{});
    case PredicateOp::kGreater:
      return body(std::greater<>{});
    case PredicateOp::kGreaterEqual:
      return body(std::greater_equal<>{});
    case PredicateOp::kEqual:
      return body(std::equal_to<>{});
    case PredicateOp::kNotEqual:
      return body(std::not_equal_to<>{});
    default:
      throw Internal("filter operator " + std::to_string(static_cast<int>(op)));
  }
}

bool is_membership(PredicateOp op) { return op == PredicateOp::kIn || op == PredicateOp::kNotIn; }

template <typename T>
void test_fixed(const Predicate& predicate, std::span<const T> values, std::span<uint8_t> mask) {
  if (is_membership(predicate.op)) {
    const bool wanted = predicate.op == PredicateOp::kIn;
    for (size_t i = 0; i < mask.size(); ++i) {
      mask[i] = predicate.bits_set.contains(bits_of(values[i])) == wanted;
    }
    return;
  }
  const T value = value_of<T>(predicate.bits);
  with_comparison(predicate.op, [&](auto compare) {
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = compare(values[i], value);
  });
}

bool test_string(const Predicate& predicate, std::string_view value) {
  switch (predicate.op) {
    case PredicateOp::kLess:
      return value < predicate.text;
    case PredicateOp::kLessEqual:
      return value <= predicate.text;
    case PredicateOp::kGreater:
      return value > predicate.text;
    case PredicateOp::kGreaterEqual:
      return value >= predicate.text;
    case PredicateOp::kEqual:
      return value == predicate.text;
    case PredicateOp::kNotEqual:
      return value != predicate.text;
    default:
      return (predicate.string_set.find(value) != predicate.string_set.end()) ==
             (predicate.op == PredicateOp::kIn);
  }
}

/// accept[code] for every category. Only categories are compared by value, never rows.
std::vector<uint8_t> accepted_codes(const Predicate& predicate, const Categories& categories,
                                    bool enumerated) {
  const size_t count = categories.size();
  std::vector<uint8_t> accept(count);
  const bool by_place = enumerated && predicate.op <= PredicateOp::kGreaterEqual;
  const auto equals = [&](size_t code) {
    if (!categories.strings.empty()) return categories.strings[code] == predicate.text;
    const size_t width = size_of(categories.type);
    return std::memcmp(categories.values.data() + code * width, &predicate.bits, width) == 0;
  };
  if (by_place) {
    // A value that the enumeration does not have comes before and after nothing.
    for (size_t place = 0; place < count; ++place) {
      if (!equals(place)) continue;
      with_comparison(predicate.op, [&](auto compare) {
        for (size_t code = 0; code < count; ++code) accept[code] = compare(code, place);
      });
      break;
    }
  } else if (!categories.strings.empty()) {
    for (size_t code = 0; code < count; ++code) {
      accept[code] = test_string(predicate, categories.strings[code]);
    }
  } else if (count > 0 && !is_membership(predicate.op)) {
    // By bytes, as TileDB looks values up: -0.0 is not 0.0 here.
    for (size_t code = 0; code < count; ++code) {
      accept[code] = equals(code) == (predicate.op == PredicateOp::kEqual);
    }
  } else if (count > 0) {
    with_fixed_type(categories.type, [&](auto zero) {
      using T = decltype(zero);
      for (size_t code = 0; code < count; ++code) {
        T value;
        std::memcpy(&value, categories.values.data() + code * sizeof(T), sizeof(T));
        accept[code] =
            predicate.bits_set.contains(bits_of(value)) == (predicate.op == PredicateOp::kIn);
      }
    });
  }
  return accept;
}

void test_codes(const Predicate& predicate, const Column& column, bool enumerated,
                std::span<uint8_t> mask) {
  const std::vector<uint8_t> accept = accepted_codes(predicate, *column.categories, enumerated);
  with_fixed_type(column.code_type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      const std::span<const T> codes = column.values<T>();
      for (size_t i = 0; i < mask.size(); ++i) {
        // Also refuses -1, which becomes the largest.
        const auto code = static_cast<uint64_t>(codes[i]);
        mask[i] = code < accept.size() ? accept[static_cast<size_t>(code)] : 0;
      }
    } else {
      throw Internal("codes of type " + std::string(name_of(column.code_type)));
    }
  });
}

void clear_nulls(const Column& column, std::span<uint8_t> mask) {
  if (column.validity.empty()) return;
  for (size_t i = 0; i < mask.size(); ++i) {
    mask[i] = static_cast<uint8_t>(mask[i] & (column.validity[i] != 0 ? 1 : 0));
  }
}

void test_null(bool wanted, const Column& column, std::span<uint8_t> mask) {
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = column.is_valid(i) != wanted;
}

void test(const Predicate& predicate, const ColumnInfo& info, const Column& column,
          std::span<uint8_t> mask) {
  if (column.size() != mask.size()) {
    throw Internal("filter over " + std::to_string(mask.size()) + " rows of column '" + info.name +
                   "', which has " + std::to_string(column.size()));
  }
  if (predicate.op == PredicateOp::kIsNull || predicate.op == PredicateOp::kIsNotNull) {
    return test_null(predicate.op == PredicateOp::kIsNull, column, mask);
  }
  const DataType type = column.categories ? column.categories->type : column.type;
  if (type != info.type) {
    throw Internal("filter bound to column '" + info.name + "' of type " +
                   std::string(name_of(info.type)) + " got type " + std::string(name_of(type)));
  }
  if (column.categories) {
    test_codes(predicate, column, info.enumerated, mask);
  } else if (column.is_variable()) {
    if (!is_string(type)) {
      throw InvalidArgument("value_filter: column '" + info.name +
                            "' has several values a cell and cannot be compared");
    }
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = test_string(predicate, column.string_at(i));
  } else if (is_string(type)) {
    if (!mask.empty()) throw Internal("column '" + info.name + "' of strings has no offsets");
  } else {
    with_fixed_type(type, [&](auto zero) {
      using T = decltype(zero);
      test_fixed<T>(predicate, column.values<T>(), mask);
    });
  }
  clear_nulls(column, mask);
}

}  // namespace

bool holds_for(const Predicate& predicate, const std::optional<std::string>& text) {
  if (predicate.op == PredicateOp::kIsNull) return !text.has_value();
  if (predicate.op == PredicateOp::kIsNotNull) return text.has_value();
  return text.has_value() && test_string(predicate, *text);
}

namespace {

void run(const PlanNode& node, const BoundFilter::Plan& plan,
         std::span<const Column* const> columns, std::span<uint8_t> mask) {
  if (node.kind == PlanNode::Kind::kConstant) {
    std::fill(mask.begin(), mask.end(), uint8_t{node.keeps});
    return;
  }
  if (node.kind == PlanNode::Kind::kPredicate) {
    const size_t column = node.predicate.column;
    return test(node.predicate, plan.infos[column], *columns[column], mask);
  }
  run(node.children[0], plan, columns, mask);
  std::vector<uint8_t> other(mask.size());
  for (size_t child = 1; child < node.children.size(); ++child) {
    run(node.children[child], plan, columns, other);
    if (node.kind == PlanNode::Kind::kAnd) {
      for (size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<uint8_t>(mask[i] & other[i]);
    } else {
      for (size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<uint8_t>(mask[i] | other[i]);
    }
  }
}

}  // namespace

const std::vector<std::string>& BoundFilter::columns() const noexcept { return plan_->columns; }

std::optional<bool> BoundFilter::constant() const noexcept {
  if (plan_->root.kind != PlanNode::Kind::kConstant) return std::nullopt;
  return plan_->root.keeps;
}

void BoundFilter::evaluate(std::span<const Column* const> columns, std::span<uint8_t> mask) const {
  if (columns.size() != plan_->columns.size()) {
    throw Internal("filter of " + std::to_string(plan_->columns.size()) + " columns got " +
                   std::to_string(columns.size()));
  }
  run(plan_->root, *plan_, columns, mask);
}

void BoundFilter::evaluate(const Table& table, std::span<uint8_t> mask) const {
  std::vector<const Column*> columns;
  for (const std::string& name : plan_->columns) columns.push_back(&table.at(name));
  evaluate(columns, mask);
}

}  // namespace penstock::table
