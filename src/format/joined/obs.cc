#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/concat.h"
#include "format/joined/joined_table.h"

namespace penstock::format {
namespace {

std::vector<NamedTable> tables_of(const std::vector<ObsPart>& parts) {
  std::vector<NamedTable> tables;
  tables.reserve(parts.size());
  for (const ObsPart& part : parts) tables.push_back(part.obs);
  return tables;
}

class JoinedObs final : public JoinedTable {
 public:
  JoinedObs(std::vector<ObsPart> parts, const std::string& source_column)
      : JoinedTable(tables_of(parts)), places_(std::move(parts)) {
    ColumnInfo source;
    source.name = source_column;
    source.type = DataType::kStringUtf8;
    source.enumerated = true;
    columns_.push_back(source);
    for (size_t i = 0; i < places_.size(); ++i) {
      constants_[i].push_back({source, places_[i].obs.name});
    }
  }

  uint64_t row_count() const override {
    uint64_t rows = 0;
    for (const ObsPart& part : places_) rows += part.obs.table.row_count();
    return rows;
  }

  RowSelection select(std::string_view value_filter,
                      std::span<const ConstantColumn> constants) const override {
    expect_filter_read(value_filter);
    RowSelection rows;
    for (size_t i = 0; i < places_.size(); ++i) {
      rows = rows | select_in(i, value_filter, constants).shifted(places_[i].row_offset);
    }
    return rows;
  }

  Table read(const ReadOptions& options) const override {
    const auto infos = chosen_columns(options.columns);
    std::optional<RowSelection> rows = options.joinids;
    if (!options.value_filter.empty()) {
      const RowSelection kept = select(options.value_filter, {});
      rows = rows ? *rows & kept : kept;
    }
    std::vector<PartColumns> read;
    std::vector<std::string> names;
    std::vector<uint64_t> counts;
    Table table;
    for (size_t i = 0; i < places_.size(); ++i) {
      read.push_back(read_part(i, infos, own_rows(places_[i], rows)));
      names.push_back(places_[i].obs.name);
      counts.push_back(read.back().row_count);
      table.row_count += counts.back();
    }
    const std::string& source = columns_.back().name;
    for (const ColumnInfo& info : infos) {
      const Column* const before = table.find(info.name);  // a name may come twice
      table.columns.push_back(before != nullptr ? *before
                              : info.name == source
                                  ? repeated_names(source, names, counts)
                                  : concatenate_parts(info, take_column(info.name, read)));
    }
    return table;
  }

 private:
  std::string arrangement() const override {
    std::string text = concat("joined obs ", columns_.back().name, "\n");
    for (const ObsPart& part : places_) {
      text += concat(part.row_offset, " ", part.obs.name, "\n");
    }
    return text;
  }

  static std::optional<RowSelection> own_rows(const ObsPart& part,
                                              const std::optional<RowSelection>& rows) {
    if (!rows) return std::nullopt;
    const auto all = RowSelection::range(part.row_offset, part.row_offset + part.row_end);
    return (*rows & all).shifted(-part.row_offset);
  }

  std::vector<ObsPart> places_;
};

}  // namespace

StoredTablePtr join_obs(std::vector<ObsPart> parts, const std::string& source_column) {
  return std::make_shared<const JoinedObs>(std::move(parts), source_column);
}

}  // namespace penstock::format
