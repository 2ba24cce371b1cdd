#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "format/joined/joined_table.h"
#include "table/column_operations.h"

namespace penstock::format {
namespace {

constexpr std::string_view kJoinid = "soma_joinid";

class JoinedVar final : public JoinedTable {
 public:
  JoinedVar(std::vector<NamedTable> parts, std::shared_ptr<const GeneMatch> match,
            std::string name_column)
      : JoinedTable(std::move(parts)),
        match_(std::move(match)),
        name_column_(std::move(name_column)) {
    for (ColumnInfo& info : columns_) {
      if (info.name != name_column_) continue;
      info.type = DataType::kStringUtf8;
      info.nullable = info.enumerated = info.ordered = false;
    }
  }

  uint64_t row_count() const override { return match_->names.size(); }

  RowSelection select(std::string_view value_filter,
                      std::span<const ConstantColumn> constants) const override {
    if (value_filter.empty()) return RowSelection::range(0, static_cast<int64_t>(row_count()));
    expect_filter_read(value_filter);
    std::vector<bool> kept(row_count());
    for (size_t i = 0; i < parts_.size(); ++i) {
      const RowSelection rows = select_in(i, value_filter, constants);
      const GeneMatch::Part& part = match_->parts[i];
      for (size_t gene = 0; gene < part.joinids.size(); ++gene) {
        if (rows.contains(part.joinids[gene])) kept[part.places[gene]] = true;
      }
    }
    std::vector<int64_t> ids;
    for (size_t gene = 0; gene < kept.size(); ++gene) {
      if (kept[gene]) ids.push_back(static_cast<int64_t>(gene));
    }
    return RowSelection::from_sorted(ids);
  }

  Table read(const ReadOptions& options) const override {
    const auto infos = chosen_columns(options.columns);
    RowSelection rows = select(options.value_filter, {});
    if (options.joinids) rows = rows & *options.joinids;
    const std::vector<int64_t> genes = rows.to_vector();
    auto stored = infos;
    std::erase_if(stored, [&](const ColumnInfo& info) {
      return info.name == kJoinid || info.name == name_column_;
    });
    std::vector<PartColumns> read;
    for (size_t i = 0; !stored.empty() && i < parts_.size(); ++i) {
      read.push_back(read_part(i, stored, RowSelection::from_sorted(match_->parts[i].joinids)));
    }
    Table table;
    table.row_count = genes.size();
    for (const ColumnInfo& info : infos) {
      const Column* const before = table.find(info.name);  // a name may come twice
      table.columns.push_back(before != nullptr           ? *before
                              : info.name == kJoinid      ? ids_of(genes)
                              : info.name == name_column_ ? names_of(genes)
                                                          : values_of(info, read, genes));
    }
    return table;
  }

 private:
  std::string arrangement() const override {
    std::string text = "joined var " + name_column_ + "\n";
    for (const std::string& name : match_->names) text += name + "\n";
    return text;
  }

  static Column ids_of(const std::vector<int64_t>& genes) {
    Column column;
    column.name = kJoinid;
    const auto* const bytes = reinterpret_cast<const std::byte*>(genes.data());
    column.data.assign(bytes, bytes + genes.size() * sizeof(int64_t));
    column.row_count = genes.size();
    return column;
  }

  Column names_of(const std::vector<int64_t>& genes) const {
    Column column;
    column.name = name_column_;
    column.type = DataType::kStringUtf8;
    column.offsets.push_back(0);
    for (const int64_t gene : genes) {
      const std::string& name = match_->names[static_cast<size_t>(gene)];
      const auto* const bytes = reinterpret_cast<const std::byte*>(name.data());
      column.data.insert(column.data.end(), bytes, bytes + name.size());
      column.offsets.push_back(column.data.size());
    }
    column.row_count = genes.size();
    return column;
  }

  /// Values of the first part that has the gene and the column; null if none has.
  Column values_of(const ColumnInfo& info, std::vector<PartColumns>& read,
                   const std::vector<int64_t>& genes) const {
    std::vector<ColumnPart> values = take_column(info.name, read);
    uint64_t begin = 0;  // of a part's rows among those of all
    for (const ColumnPart& part : values) begin += part.row_count;
    const uint64_t null_row = begin;
    std::vector<uint64_t> row_of(row_count(), null_row);
    for (size_t i = values.size(); i-- > 0;) {
      begin -= values[i].row_count;
      if (!values[i].column) continue;
      const std::vector<uint32_t>& places = match_->parts[i].places;
      for (size_t gene = 0; gene < places.size(); ++gene) row_of[places[gene]] = begin + gene;
    }
    const bool any_null = std::find(row_of.begin(), row_of.end(), null_row) != row_of.end();
    if (any_null) values.push_back({std::nullopt, 1});
    std::vector<uint64_t> rows;
    rows.reserve(genes.size());
    for (const int64_t gene : genes) rows.push_back(row_of[static_cast<size_t>(gene)]);
    return table::take_rows(concatenate_parts(info, std::move(values)), rows);
  }

  std::shared_ptr<const GeneMatch> match_;
  std::string name_column_;
};

}  // namespace

StoredTablePtr join_var(std::vector<NamedTable> parts, std::shared_ptr<const GeneMatch> match,
                        std::string name_column) {
  return std::make_shared<const JoinedVar>(std::move(parts), std::move(match),
                                           std::move(name_column));
}

}  // namespace penstock::format
