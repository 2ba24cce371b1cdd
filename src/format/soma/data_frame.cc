#include "format/soma/data_frame.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "format/pack/written_files.h"
#include "format/tiledb/directory/array_content.h"
#include "format/tiledb/reader/run_parts.h"
#include "io/file_store.h"
#include "table/column_operations.h"
#include "table/filter_expression.h"

namespace penstock::format::soma {
namespace {

using tiledb::ArrayReader;
using tiledb::ArrayReadRequest;

constexpr std::string_view kJoinid = "soma_joinid";

/// Whether rows are stored in ascending order of soma_joinid.
bool stored_in_order(const ArrayReader& reader) {
  return reader.ascending() && reader.schema().dimensions[0].name == kJoinid;
}

std::span<const int64_t> joinids_of(const Table& table) {
  return table.at(kJoinid).values<int64_t>();
}

void sort_by_joinid(Table& table) {
  const auto joinids = joinids_of(table);
  if (std::is_sorted(joinids.begin(), joinids.end())) return;
  std::vector<uint64_t> order(table.row_count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint64_t a, uint64_t b) { return joinids[a] < joinids[b]; });
  table = table::take_rows(table, order);
}

void keep_joinids(Table& table, const RowSelection& rows) {
  std::vector<uint8_t> mask;
  mask.reserve(table.row_count);
  for (const int64_t joinid : joinids_of(table)) {
    mask.push_back(joinid >= 0 && rows.contains(joinid) ? 1 : 0);
  }
  table = table::filter_rows(table, mask);
}

std::optional<table::BoundFilter> bind_filter(std::string_view text, const ArrayReader& reader,
                                              std::span<const ConstantColumn> constants = {}) {
  if (text.empty()) return std::nullopt;
  return table::FilterExpression::parse(text).bind(reader.columns(), constants);
}

RowSelection selection_of(std::vector<int64_t> joinids) {
  if (!std::is_sorted(joinids.begin(), joinids.end())) std::sort(joinids.begin(), joinids.end());
  return RowSelection::from_sorted(joinids);
}

/// Returns the union, joined pairwise so that each bit is copied a logarithmic number of times.
RowSelection join(std::vector<RowSelection> parts) {
  if (parts.empty()) return {};
  while (parts.size() > 1) {
    std::vector<RowSelection> joined;
    for (size_t i = 0; i < parts.size(); i += 2) {
      joined.push_back(i + 1 < parts.size() ? parts[i] | parts[i + 1] : parts[i]);
    }
    parts = std::move(joined);
  }
  return parts[0];
}

}  // namespace

const ArrayReader& SomaTable::reader() const {
  return *reader_.get([&] {
    auto opened = ArrayReader::open(store_, path_, range_, threads_);
    const auto& schema = opened->schema();
    const auto dimension = schema.find_dimension(kJoinid);
    const auto attribute = schema.find_attribute(kJoinid);
    const DataType type = dimension   ? schema.dimensions[*dimension].type
                          : attribute ? schema.attributes[*attribute].type
                                      : DataType::kAny;
    if (type != DataType::kInt64 || schema.dense()) {
      throw InvalidArgument("not a SOMA DataFrame: it has no int64 column soma_joinid, array " +
                            path_);
    }
    return opened;
  });
}

std::string SomaTable::content() const { return tiledb::content_text(reader().directory(), false); }

Table SomaTable::read(const ReadOptions& options) const {
  const ArrayReader& reader = this->reader();
  ArrayReadRequest request;
  request.columns = options.columns;
  if (request.columns.empty()) {
    for (const ColumnInfo& info : reader.columns()) request.columns.push_back(info.name);
  }
  for (const std::string& name : request.columns) reader.column(name);
  const auto filter = bind_filter(options.value_filter, reader);
  if (filter) request.filter = &*filter;

  const auto& joinids = options.joinids;
  const auto dimension = reader.schema().find_dimension(kJoinid);
  const bool filter_joinids = joinids && !dimension;
  if (joinids && dimension) {
    request.rows = &*joinids;
    request.row_dimension = *dimension;
  }
  const bool sort = !stored_in_order(reader);
  const bool wanted =
      std::find(request.columns.begin(), request.columns.end(), kJoinid) != request.columns.end();
  const bool extra = !wanted && (sort || filter_joinids);
  if (extra) request.columns.emplace_back(kJoinid);

  Table table = reader.read(request);
  if (filter_joinids) keep_joinids(table, *joinids);
  if (sort) sort_by_joinid(table);
  if (extra) table.columns.pop_back();
  return table;
}

RowSelection SomaTable::select(std::string_view value_filter,
                               std::span<const ConstantColumn> constants) const {
  const ArrayReader& reader = this->reader();
  auto filter = bind_filter(value_filter, reader, constants);
  if (filter) {
    const auto constant = filter->constant();
    if (constant == false) return {};
    if (constant == true) filter.reset();
  }
  if (!filter && stored_in_order(reader)) {
    if (auto known = reader.coordinates_without_reading()) return *known;
  }
  ArrayReadRequest request;
  request.columns = {std::string(kJoinid)};
  if (filter) request.filter = &*filter;
  tiledb::RunParts<RowSelection> parts;
  reader.read_runs(request, [&](size_t run, Table&& table) {
    const auto joinids = joinids_of(table);
    parts.put(run, selection_of({joinids.begin(), joinids.end()}));
  });
  return join(parts.take());
}

// Cells written meanwhile might be copied in part, and X would have none of them.
pack::FileSums SomaTable::copy_to(const std::string& folder) const {
  const std::string before = content();
  auto sums = pack::copy_tree(*store_, path_, folder);
  const auto copy =
      tiledb::ArrayDirectory::load(std::make_shared<const io::FileStore>(), folder, range_);
  if (tiledb::content_text(copy, false) == before) return sums;
  throw IoError(
      "a table was written to after it was opened: open the experiment again, or as of a "
      "timestamp, "
      "and pack that, " +
      path_);
}

}  // namespace penstock::format::soma
