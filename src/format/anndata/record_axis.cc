#include "format/anndata/record_axis.h"

#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "base/types/visit_type.h"
#include "format/anndata/column_parts.h"
#include "format/chunked/record_fields.h"
#include "format/numbered_table.h"
#include "table/column_operations.h"

namespace penstock::format::anndata {
namespace {

using chunked::RecordField;

class RecordAxis final : public NumberedTable {
 public:
  RecordAxis(chunked::ArrayPtr records, const chunked::GroupPtr& categories,
             const std::string& names, unsigned threads)
      : records_(std::move(records)), threads_(threads) {
    const chunked::ArrayInfo& info = records_->info();
    if (info.fields.empty() || info.shape.size() != 1) {
      throw CorruptData("a table must be a group of columns or an array of records, in " +
                        info.path);
    }
    std::vector<ColumnInfo> infos;
    UnreadColumns unread;
    for (size_t i = 0; i < info.fields.size(); ++i) {
      RecordField field = info.fields[i];
      const bool hidden = field.name == kRowNumbers || (i != 0 && field.name == names);
      if (hidden && i != 0) continue;
      if (i == 0) field.name = names;
      const std::string name = field.name;
      if (!columns_.emplace(name, FieldColumn{std::move(field), nullptr, {}}).second) {
        throw CorruptData("two fields are called '" + name + "', in " + info.path);
      }
      try {
        if (i != 0 && categories) set_categories(*categories, name);
      } catch (const Unsupported& error) {
        unread.emplace(name, error.what());
        continue;
      }
      infos.push_back(info_of(columns_.find(name)->second));
    }
    set_columns(std::move(infos), info.shape[0], std::move(unread));
  }

  const std::string& uri() const override { return records_->info().path; }

  std::string content() const override {
    const std::string own = records_->version();
    if (own.empty()) return {};
    std::string text = "table " + uri() + "\n" + own + "\n";
    for (const auto& [name, column] : columns_) text += column.categories_version;
    return text;
  }

 private:
  struct FieldColumn {
    RecordField field;
    std::shared_ptr<const Categories> categories;  ///< null unless the values are codes
    std::string categories_version;
  };

  void set_categories(const chunked::Group& group, const std::string& name);
  static ColumnInfo info_of(const FieldColumn& column);
  Column stored_column(const std::string& name, uint64_t begin, uint64_t end) const override;

  const chunked::ArrayPtr records_;
  const unsigned threads_;
  std::map<std::string, FieldColumn, std::less<>> columns_;
};

void RecordAxis::set_categories(const chunked::Group& group, const std::string& name) {
  FieldColumn& column = columns_.find(name)->second;
  if (!is_integer(column.field.type)) return;
  const auto stored = group.array(name + "_categories");
  if (!stored || stored->info().shape.size() != 1) return;
  const uint64_t count = stored->info().shape[0];
  const Buffer codes =
      chunked::read_field(*records_, column.field, 0, records_->info().shape[0], threads_);
  const bool all_have_one = visit_integer(column.field.type, [&](auto identity) {
    using Code = typename decltype(identity)::type;
    const auto values = codes.as<Code>();
    return std::all_of(values.begin(), values.end(), [&](Code code) {
      const bool missing = std::is_signed_v<Code> && code == static_cast<Code>(-1);
      return missing || (std::in_range<uint64_t>(code) && static_cast<uint64_t>(code) < count);
    });
  });
  if (!all_have_one) return;
  column.categories = read_categories(*stored, false, threads_);
  column.categories_version = stored->version();
}

ColumnInfo RecordAxis::info_of(const FieldColumn& column) {
  ColumnInfo info;
  info.name = column.field.name;
  if (column.categories) {
    info.type = column.categories->type;
    info.enumerated = true;
    info.nullable = true;
  } else if (column.field.strings != chunked::StringForm::kNone) {
    info.type = DataType::kStringUtf8;
  } else {
    info.type = column.field.type;
  }
  return info;
}

Column RecordAxis::stored_column(const std::string& name, uint64_t begin, uint64_t end) const {
  const FieldColumn& stored = columns_.find(name)->second;
  Column column;
  if (stored.categories) {
    const Buffer codes = chunked::read_field(*records_, stored.field, begin, end, threads_);
    column = coded_column(codes, stored.field.type, stored.categories, name, uri());
  } else if (stored.field.strings != chunked::StringForm::kNone) {
    put_strings(chunked::read_string_field(*records_, stored.field, begin, end, threads_), column);
  } else {
    column.type = stored.field.type;
    put_values(chunked::read_field(*records_, stored.field, begin, end, threads_), column);
  }
  column.name = name;
  column.row_count = end - begin;
  if (column.is_variable()) table::encode_strings(column);
  return column;
}

}  // namespace

StoredTablePtr open_record_axis(chunked::ArrayPtr records, const chunked::GroupPtr& categories,
                                const std::string& names, unsigned threads) {
  return std::make_shared<const RecordAxis>(std::move(records), categories, names, threads);
}

}  // namespace penstock::format::anndata
