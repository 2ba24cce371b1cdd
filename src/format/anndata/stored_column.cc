#include "format/anndata/stored_column.h"

#include <penstock/error.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/concat.h"
#include "base/types/visit_type.h"
#include "format/anndata/column_parts.h"
#include "format/anndata/elements.h"
#include "format/cells/stored_ids.h"
#include "format/chunked/read_array.h"
#include "table/column_operations.h"

namespace penstock::format::anndata {
namespace {

void expect_vector(const chunked::Array& array) {
  if (array.info().shape.size() != 1) {
    throw Unsupported(concat("a column must have one dimension, this one has ",
                             array.info().shape.size(), ", in ", array.info().path));
  }
}

chunked::ArrayPtr open_array(const chunked::Group& group, const std::string& name) {
  auto array = group.array(name);
  if (!array) throw CorruptData("a column has no array '" + name + "', in " + group.path());
  expect_known_encoding(array->attributes(), array->info().path);
  expect_vector(*array);
  return array;
}

bool is_string(const chunked::Array& array) {
  return array.info().strings != chunked::StringForm::kNone;
}

}  // namespace

StoredColumn::StoredColumn(const chunked::Group& table, const std::string& stored_name,
                           std::string name) {
  info_.name = std::move(name);
  if (const auto group = table.group(stored_name)) {
    path_ = group->path();
    expect_known_encoding(group->attributes(), path_);
    open_group(*group, encoding_of(group->attributes()));
  } else if ((values_ = table.array(stored_name)) != nullptr) {
    path_ = values_->info().path;
    expect_known_encoding(values_->attributes(), path_);
    expect_vector(*values_);
    // anndata 0.7 keeps categories beside the columns and names them in an attribute.
    const std::string categories = text_attribute(values_->attributes(), "categories");
    if (!categories.empty()) {
      auto found = table.array(categories);
      if (!found) throw CorruptData("there are no categories '" + categories + "', in " + path_);
      open_categories(found, is_set(found->attributes(), "ordered"));
    } else {
      info_.type = is_string(*values_) ? DataType::kStringUtf8 : values_->info().type;
    }
  } else {
    throw NotFound("there is no column '" + stored_name + "', in " + table.path());
  }
  if (!is_string(*values_) && values_->info().type != DataType::kBool) {
    with_place(
        [&] {
          visit_number(
              values_->info().type, [](auto) {}, "values of a column");
        },
        [&] { return path_; });
  }
}

void StoredColumn::open_group(const chunked::Group& group, const std::string& encoding) {
  if (encoding == "categorical") {
    values_ = open_array(group, "codes");
    open_categories(open_array(group, "categories"), is_set(group.attributes(), "ordered"));
  } else if (encoding == "nullable-integer" || encoding == "nullable-boolean" ||
             encoding == "nullable-string-array") {
    values_ = open_array(group, "values");
    mask_ = open_array(group, "mask");
    if (mask_->info().shape != values_->info().shape || mask_->info().cell_bytes != 1) {
      throw CorruptData(concat("mask must be booleans, one for each of ", values_->info().shape[0],
                               " values, in ", path_));
    }
    info_.nullable = true;
    info_.type = is_string(*values_) ? DataType::kStringUtf8 : values_->info().type;
  } else {
    throw Unsupported("columns of encoding-type '" + encoding +
                      "' are not read; store the values as numbers, strings or categories, in " +
                      path_);
  }
}

void StoredColumn::open_categories(chunked::ArrayPtr categories, bool ordered) {
  expect_vector(*categories);
  if (!is_integer(values_->info().type)) {
    throw CorruptData("codes of categories must be integers, in " + path_);
  }
  categories_ = std::move(categories);
  info_.enumerated = true;
  info_.nullable = true;
  info_.ordered = ordered;
  info_.type = is_string(*categories_) ? DataType::kStringUtf8 : categories_->info().type;
}

std::string StoredColumn::version() const {
  std::string text;
  for (const chunked::Array* array : {values_.get(), mask_.get(), categories_.get()}) {
    if (array == nullptr) continue;
    const std::string own = array->version();
    if (own.empty()) return {};
    text += own + "\n";
  }
  return text;
}

void StoredColumn::add_ranges(uint64_t begin, uint64_t end,
                              std::vector<chunked::ArrayRange>& ranges) const {
  ranges.push_back({values_.get(), begin, end});
  if (mask_) ranges.push_back({mask_.get(), begin, end});
  if (categories_) ranges.push_back({categories_.get(), 0, categories_->info().shape[0]});
}

std::shared_ptr<const Categories> StoredColumn::categories(unsigned threads) const {
  return read_categories_.get(
      [&] { return anndata::read_categories(*categories_, info_.ordered, threads); });
}

Column StoredColumn::read(uint64_t begin, uint64_t end, unsigned threads) const {
  Column column = categories_ ? read_codes(begin, end, threads) : Column{};
  column.name = info_.name;
  column.type = info_.type;
  column.row_count = end - begin;
  if (categories_) return column;
  if (is_string(*values_)) {
    put_strings(chunked::read_strings(*values_, begin, end, threads), column);
  } else {
    put_values(chunked::read_values(*values_, begin, end, threads), column);
  }
  if (mask_) {
    const Buffer mask = chunked::read_values(*mask_, begin, end, threads);
    const auto missing = mask.as<uint8_t>();
    if (std::any_of(missing.begin(), missing.end(), [](uint8_t bit) { return bit != 0; })) {
      column.validity.resize(missing.size());
      for (size_t i = 0; i < missing.size(); ++i) column.validity[i] = missing[i] == 0;
    }
  }
  if (column.is_variable()) table::encode_strings(column);
  return column;
}

Column StoredColumn::read_codes(uint64_t begin, uint64_t end, unsigned threads) const {
  const Buffer codes = chunked::read_values(*values_, begin, end, threads);
  return coded_column(codes, values_->info().type, categories(threads), info_.name, path_);
}

}  // namespace penstock::format::anndata
