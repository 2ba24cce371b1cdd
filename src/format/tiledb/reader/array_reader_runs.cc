#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/threads/parallel.h"
#include "format/tiledb/integer_value.h"
#include "format/tiledb/reader/array_reader.h"
#include "format/tiledb/reader/array_reader_cells.h"
#include "format/tiledb/reader/array_reader_lazy.h"
#include "format/tiledb/reader/boxes.h"
#include "table/column_operations.h"

namespace penstock::format::tiledb {

struct ArrayReader::Run {
  size_t fragment = 0;
  std::vector<uint64_t> tiles;
  uint64_t cells = 0;
};

namespace {

/// Large enough to hide the start of a thread and the latency of a read, small enough that memory
/// in flight is small beside the result.
constexpr uint64_t kRunCells = 100'000;
constexpr size_t kRunTiles = 256;
/// Stored bytes that are announced to a remote store at once.
constexpr uint64_t kAnnouncedBytes = uint64_t{96} << 20;

bool touches_rows(const FragmentMetadata& fragment, uint64_t tile, size_t dimension,
                  const RowSelection& rows) {
  const int64_t first = std::max<int64_t>(0, fragment.tile_bounds().min_int(tile, dimension));
  const int64_t last = fragment.tile_bounds().max_int(tile, dimension);
  return last >= first && (rows.rank(last) != rows.rank(first) || rows.contains(last));
}

int64_t coordinate(const Column& column, uint64_t row) {
  return read_integer(column.type, column.data.data() + row * size_of(column.type));
}

}  // namespace

/// One run while it is read: its fields, decoded on demand, and the cells that are left.
class ArrayReader::RunCells {
 public:
  RunCells(const ArrayReader& reader, const Run& run)
      : reader_(reader), run_(run), fragment_(*reader.fragments_[run.fragment]) {}

  /// Decodes one of `wanted`, or the first dimension if the fragment has none of them. Only then is
  /// it certain that the run has the cells that metadata promises, and memory may be allocated for
  /// them.
  void begin(const std::vector<std::string>& wanted) {
    const auto present = std::find_if(wanted.begin(), wanted.end(),
                                      [&](const std::string& name) { return !is_absent(name); });
    cells(present == wanted.end() ? reader_.schema_->dimensions[0].name : *present);
    keep_.assign(run_.cells, 1);
  }

  /// Cells of a dimension or attribute as stored, or fill values if the fragment has no such field.
  const Column& cells(const std::string& name) {
    const auto found = held_.find(name);
    if (found != held_.end()) return found->second;
    const FragmentField* field = fragment_.find_field(name);
    const auto attribute = reader_.schema_->find_attribute(name);
    Column column;
    if (field != nullptr) {
      column = read_cells(*reader_.directory_.store(), fragment_, *field, run_.tiles, scratch_);
      if (attribute) check_evolution(*field, reader_.schema_->attributes[*attribute], column);
    } else {
      column = fill_cells(reader_.schema_->attributes.at(attribute.value()), run_.cells);
    }
    return held_.emplace(name, std::move(column)).first->second;
  }

  bool is_absent(const std::string& name) const { return fragment_.find_field(name) == nullptr; }

  void keep_rows(const RowSelection& rows, size_t dimension) {
    const Column& column = cells(reader_.schema_->dimensions[dimension].name);
    std::vector<int64_t> coordinates;
    coordinates.reserve(run_.cells);
    for (uint64_t i = 0; i < run_.cells; ++i) coordinates.push_back(coordinate(column, i));
    const auto [least, most] = std::minmax_element(coordinates.begin(), coordinates.end());
    const int64_t first = std::max<int64_t>(0, *least);
    const int64_t last = std::min(*most, std::numeric_limits<int64_t>::max() - 1);
    std::vector<int64_t> wanted;
    // Looking each coordinate up in the bitmap costs ten times as much as walking both lists.
    if (first <= last) rows.copy_range(first, last + 1, wanted);
    const bool ascending = std::is_sorted(coordinates.begin(), coordinates.end());
    auto at = wanted.begin();
    for (uint64_t i = 0; i < run_.cells; ++i) {
      if (ascending) {
        while (at != wanted.end() && *at < coordinates[i]) ++at;
      } else {
        at = std::lower_bound(wanted.begin(), wanted.end(), coordinates[i]);
      }
      if (at == wanted.end() || *at != coordinates[i]) keep_[i] = 0;
    }
  }

  void keep_domain() {
    if (reader_.outside_[run_.fragment] == 0) return;
    const ArraySchema& schema = *reader_.schema_;
    for (size_t d = 0; d < schema.dimensions.size(); ++d) {
      const Dimension& dimension = schema.dimensions[d];
      drop_outside(dimension, schema.current_domain[d], cells(dimension.name), keep_);
    }
  }

  void keep_time_range() {
    if (!fragment_.location().partly_in_range || !fragment_.has_timestamps()) return;
    const TimeRange& range = reader_.directory_.time_range();
    const auto times = timestamps();
    for (uint64_t i = 0; i < run_.cells; ++i) {
      if (times[i] < range.start || times[i] > range.end) keep_[i] = 0;
    }
  }

  void drop_replaced() {
    if (reader_.overlapping_[run_.fragment] != 0) {
      size_t begin = 0;
      const ReplacedCells& replaced = reader_.replaced_cells();
      for (const uint64_t tile : run_.tiles) {
        const auto found = replaced.find({run_.fragment, tile});
        if (found != replaced.end()) {
          for (size_t i = 0; i < found->second.size(); ++i) {
            if (found->second[i] != 0) keep_[begin + i] = 0;
          }
        }
        begin += fragment_.tile_cells(tile);
      }
    } else if (fragment_.has_timestamps() && !reader_.schema_->allows_duplicates) {
      drop_older_neighbours();
    }
  }

  void drop_deleted() {
    const FragmentDeletes deletes = reader_.deletes_.for_fragment(fragment_);
    if (deletes.empty()) return;
    std::vector<FieldCells> fields;
    for (const std::string& name : deletes.fields()) {
      FieldCells view = view_cells(cells(name));
      view.absent = is_absent(name);
      fields.push_back(view);
    }
    std::span<const uint64_t> times, deleted;
    if (deletes.needs_timestamps()) times = timestamps();
    if (deletes.needs_delete_timestamps()) {
      deleted = cells(std::string(kDeleteTimestampsField)).values<uint64_t>();
    }
    deletes.apply(fields, times, deleted, keep_);
  }

  void keep_filtered(const table::BoundFilter& filter) {
    std::vector<Column> made;
    made.reserve(filter.columns().size());
    std::vector<const Column*> columns;
    for (const std::string& name : filter.columns()) {
      const Column& raw = cells(name);
      const auto attribute = reader_.schema_->find_attribute(name);
      if (attribute && (is_absent(name) || !raw.is_variable())) {
        made.push_back(
            reader_.finish(without_dropped(raw), reader_.schema_->attributes[*attribute]));
        // As in TileDB, no comparison is true of a cell whose fragment lacks the field.
        if (is_absent(name)) made.back().validity.assign(run_.cells, 0);
        columns.push_back(&made.back());
      } else {
        columns.push_back(&raw);
      }
    }
    std::vector<uint8_t> mask(run_.cells);
    filter.evaluate(columns, mask);
    for (uint64_t i = 0; i < run_.cells; ++i) keep_[i] = static_cast<uint8_t>(keep_[i] & mask[i]);
  }

  bool any_left() const {
    return std::any_of(keep_.begin(), keep_.end(), [](uint8_t keep) { return keep != 0; });
  }

  Table take(const std::vector<std::string>& names) {
    Table table;
    table.row_count = static_cast<uint64_t>(
        std::count_if(keep_.begin(), keep_.end(), [](uint8_t k) { return k; }));
    const bool all = table.row_count == run_.cells;
    for (const std::string& name : names) {
      const bool last_use = std::count(names.begin(), names.end(), name) == 1;
      cells(name);
      Column& raw = held_.at(name);
      Column column = !all       ? table::filter_rows(raw, keep_)
                      : last_use ? std::move(raw)
                                 : Column(raw);
      const auto attribute = reader_.schema_->find_attribute(name);
      if (attribute && !reader_.schema_->find_dimension(name)) {
        column = reader_.finish(std::move(column), reader_.schema_->attributes[*attribute]);
      }
      table.columns.push_back(std::move(column));
    }
    return table;
  }

 private:
  std::span<const uint64_t> timestamps() {
    return cells(std::string(kTimestampsField)).values<uint64_t>();
  }

  /// Turns cells that are not kept into missing ones, without looking at them: cells of later times
  /// may have codes of categories that were added later.
  Column without_dropped(const Column& raw) const {
    Column column(raw);
    for (uint64_t i = 0; i < run_.cells; ++i) {
      if (keep_[i] != 0) continue;
      if (column.validity.empty()) column.validity.assign(run_.cells, 1);
      column.validity[i] = 0;
    }
    return column;
  }

  /// An attribute may have been dropped and added again as something else.
  void check_evolution(const FragmentField& field, const Attribute& now, Column& column) const {
    if (field.type != now.type || field.cell_val_num != now.cell_val_num) {
      throw Unsupported("attribute '" + now.name + "' changed its type from " +
                        std::string(name_of(field.type)) + " to " + std::string(name_of(now.type)) +
                        ", fragment " + fragment_.location().path);
    }
    if (!now.nullable) column.validity.clear();
    if (now.nullable && !field.nullable) column.validity.assign(column.row_count, 1);
  }

  /// If coordinates ascend, equal ones are neighbours. The newest stays; at equal times the first.
  void drop_older_neighbours() {
    const Column& column = cells(reader_.schema_->dimensions[0].name);
    std::span<const uint64_t> times;
    uint64_t newest = run_.cells;  // index of the newest kept cell, none yet
    for (uint64_t i = 0; i < run_.cells; ++i) {
      if (keep_[i] == 0) continue;
      if (newest != run_.cells && coordinate(column, newest) == coordinate(column, i)) {
        if (times.empty()) times = timestamps();
        if (times[i] > times[newest]) {
          keep_[newest] = 0;
          newest = i;
        } else {
          keep_[i] = 0;
        }
      } else {
        newest = i;
      }
    }
  }

  const ArrayReader& reader_;
  const Run& run_;
  FragmentMetadata& fragment_;
  std::vector<uint8_t> keep_;
  std::map<std::string, Column> held_;
  codec::DecodeScratch scratch_;
};

std::vector<ArrayReader::Run> ArrayReader::plan_runs(const ArrayReadRequest& request) const {
  std::vector<Run> runs;
  for (const size_t f : read_order_) {
    FragmentMetadata& fragment = *fragments_[f];
    const bool neighbours = fragment.has_timestamps() && ascending_ && !schema_->allows_duplicates;
    const bool outside = outside_[f] != 0;
    if (request.rows != nullptr || neighbours || outside) fragment.load_tile_bounds();
    Run run;
    run.fragment = f;
    const auto end_run = [&] {
      if (!run.tiles.empty()) runs.push_back(run);
      run.tiles.clear();
      run.cells = 0;
    };
    for (uint64_t tile = 0; tile < fragment.tile_count(); ++tile) {
      if (request.rows != nullptr &&
          !touches_rows(fragment, tile, request.row_dimension, *request.rows)) {
        continue;
      }
      if (outside && !tile_touches(fragment, schema_->dimensions, tile, schema_->current_domain)) {
        continue;
      }
      // Cells of one coordinate must not be split between two runs.
      const bool tied = neighbours && !run.tiles.empty() && run.tiles.back() + 1 == tile &&
                        fragment.tile_bounds().max_int(run.tiles.back(), 0) ==
                            fragment.tile_bounds().min_int(tile, 0);
      if (!tied && (run.cells >= kRunCells || run.tiles.size() >= kRunTiles)) end_run();
      run.tiles.push_back(tile);
      run.cells += fragment.tile_cells(tile);
    }
    end_run();
  }
  return runs;
}

Table ArrayReader::read_run(const Run& run, const ArrayReadRequest& request,
                            const std::vector<std::string>& names) const {
  RunCells cells(*this, run);
  cells.begin(request.filter != nullptr ? request.filter->columns() : names);
  if (request.rows != nullptr) cells.keep_rows(*request.rows, request.row_dimension);
  cells.keep_domain();
  cells.keep_time_range();
  cells.drop_replaced();
  cells.drop_deleted();
  if (request.filter != nullptr && cells.any_left()) cells.keep_filtered(*request.filter);
  if (!cells.any_left()) return {};
  return cells.take(names);
}

const ReplacedCells& ArrayReader::replaced_cells() const {
  return lazy_->replaced.get([&]() -> ReplacedCells {
    if (std::count(overlapping_.begin(), overlapping_.end(), 1) == 0) return {};
    return find_replaced_cells(*directory_.store(), *schema_, fragments_, overlapping_,
                               directory_.time_range(), threads_);
  });
}

size_t ArrayReader::read_runs(const ArrayReadRequest& request,
                              const std::function<void(size_t run, Table&& table)>& consume) const {
  if (schema_->dense()) throw Internal("read_runs of a dense array, " + path());
  const std::vector<std::string> names = column_names(request);
  (void)replaced_cells();  // before the threads below would wait for it
  std::vector<std::string> read = names;
  if (request.filter != nullptr) {
    read.insert(read.end(), request.filter->columns().begin(), request.filter->columns().end());
  }
  const bool remote = directory_.store()->traits().remote;
  if (remote) announce_lists(read, request.rows != nullptr);
  const std::vector<Run> runs = plan_runs(request);
  for (size_t begin = 0; begin < runs.size();) {
    const size_t end = remote ? announce_tiles(runs, begin, read) : runs.size();
    parallel_for(end - begin, threads_, [&](size_t i) {
      Table part = read_run(runs[begin + i], request, names);
      if (part.row_count > 0) consume(begin + i, std::move(part));
    });
    begin = end;
  }
  return runs.size();
}

// Announces to a remote store all lists of tiles that the columns need, in one round trip.
void ArrayReader::announce_lists(const std::vector<std::string>& names, bool by_row) const {
  std::vector<io::ObjectRange> ranges;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const FragmentMetadata& fragment = *fragments_[f];
    for (const std::string& name : names) {
      const FragmentField* const field = fragment.find_field(name);
      if (field != nullptr) fragment.add_offset_ranges(*field, ranges);
    }
    if (by_row || outside_[f] != 0 || fragment.has_timestamps()) fragment.add_bounds_range(ranges);
  }
  directory_.store()->will_read(ranges);
}

// Announces the tiles of as many runs as may be held at once. Returns the first run that is left.
size_t ArrayReader::announce_tiles(const std::vector<Run>& runs, size_t begin,
                                   const std::vector<std::string>& names) const {
  std::vector<io::ObjectRange> ranges;
  uint64_t bytes = 0;
  size_t end = begin;
  for (; end < runs.size() && (end == begin || bytes < kAnnouncedBytes); ++end) {
    FragmentMetadata& fragment = *fragments_[runs[end].fragment];
    for (const std::string& name : names) {
      const FragmentField* const field = fragment.find_field(name);
      if (field == nullptr) continue;
      for (const TilePart part : {TilePart::kData, TilePart::kVar, TilePart::kValidity}) {
        if ((part == TilePart::kVar && !field->var_length()) ||
            (part == TilePart::kValidity && !field->nullable)) {
          continue;
        }
        fragment.load_tile_offsets(*field, part);
        const std::string path = fragment.file_path(*field, part);
        for (const uint64_t tile : runs[end].tiles) {
          ranges.push_back({path, fragment.tile_range(*field, part, tile)});
          bytes += ranges.back().range.length;
        }
      }
    }
  }
  directory_.store()->will_read(ranges);
  return end;
}

}  // namespace penstock::format::tiledb
