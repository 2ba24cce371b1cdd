#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "base/types/visit_comparison.h"
#include "base/types/visit_type.h"
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
  visit_comparison(predicate.op, [&](auto compare) {
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = compare(values[i], value);
  });
}

bool test_string(const Predicate& predicate, std::string_view value) {
  if (is_membership(predicate.op)) {
    const bool found = predicate.string_set.find(value) != predicate.string_set.end();
    return found == (predicate.op == PredicateOp::kIn);
  }
  return visit_comparison(
      predicate.op, [&](auto compare) { return compare(value, std::string_view(predicate.text)); });
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
    // A value that is not in the enumeration is neither less nor greater than any category.
    for (size_t place = 0; place < count; ++place) {
      if (!equals(place)) continue;
      visit_comparison(predicate.op, [&](auto compare) {
        for (size_t code = 0; code < count; ++code) accept[code] = compare(code, place);
      });
      break;
    }
  } else if (!categories.strings.empty()) {
    for (size_t code = 0; code < count; ++code) {
      accept[code] = test_string(predicate, categories.strings[code]);
    }
  } else if (count > 0 && !is_membership(predicate.op)) {
    // Compares bytes, as TileDB does: -0.0 is not 0.0 here.
    for (size_t code = 0; code < count; ++code) {
      accept[code] = equals(code) == (predicate.op == PredicateOp::kEqual);
    }
  } else if (count > 0) {
    visit_number(stored_type(categories.type), [&](auto identity) {
      using T = typename decltype(identity)::type;
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
  visit_integer(column.code_type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    const std::span<const T> codes = column.values<T>();
    for (size_t i = 0; i < mask.size(); ++i) {
      // Also refuses -1, which is the largest as unsigned.
      const auto code = static_cast<uint64_t>(codes[i]);
      mask[i] = code < accept.size() ? accept[static_cast<size_t>(code)] : 0;
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
    throw Internal(concat("filter over ", mask.size(), " rows of column '", info.name,
                          "', which has ", column.size()));
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
    visit_number(stored_type(type), [&](auto identity) {
      using T = typename decltype(identity)::type;
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
    throw Internal(concat("filter of ", plan_->columns.size(), " columns got ", columns.size()));
  }
  run(plan_->root, *plan_, columns, mask);
}

void BoundFilter::evaluate(const Table& table, std::span<uint8_t> mask) const {
  std::vector<const Column*> columns;
  for (const std::string& name : plan_->columns) columns.push_back(&table.at(name));
  evaluate(columns, mask);
}

}  // namespace penstock::table
