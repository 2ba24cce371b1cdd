#include "format/tiledb/reader/array_reader.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/threads/mutex.h"
#include "base/threads/parallel.h"
#include "base/types/visit_type.h"
#include "format/tiledb/integer_value.h"
#include "format/tiledb/reader/array_reader_cells.h"
#include "format/tiledb/reader/array_reader_lazy.h"
#include "format/tiledb/reader/array_reader_overlap.h"
#include "format/tiledb/reader/boxes.h"
#include "format/tiledb/reader/run_parts.h"
#include "format/tiledb/schema/enumeration.h"
#include "table/column_operations.h"

namespace penstock::format::tiledb {
namespace {

bool is_integral(const Dimension& dimension) {
  return !dimension.var_length() && !is_floating(dimension.type) && !is_string(dimension.type);
}

std::shared_ptr<const Categories> to_categories(const Enumeration& enumeration) {
  auto categories = std::make_shared<Categories>();
  categories->type = enumeration.type;
  categories->ordered = enumeration.ordered;
  if (has_variable_cells(enumeration.type, enumeration.cell_val_num)) {
    categories->strings.reserve(enumeration.size());
    for (size_t i = 0; i < enumeration.size(); ++i) {
      categories->strings.emplace_back(enumeration.string_value(i));
    }
  } else {
    categories->values = enumeration.data;
  }
  return categories;
}

/// Cells that no fragment wrote have the fill value, and writers store -1 for "no category". If a
/// value is not a valid code, the cell is null.
template <typename T>
void mark_missing_codes(Column& column, const std::vector<std::byte>& fill, size_t categories) {
  T fill_code{};
  if (fill.size() == sizeof(T)) std::memcpy(&fill_code, fill.data(), sizeof(T));
  const std::span<const T> codes = column.values<T>();
  for (uint64_t row = 0; row < column.row_count; ++row) {
    const bool missing = static_cast<uint64_t>(codes[row]) >= categories &&
                         (codes[row] == fill_code || codes[row] == static_cast<T>(-1));
    if (!missing || !column.is_valid(row)) continue;
    if (column.validity.empty()) column.validity.assign(column.row_count, 1);
    column.validity[row] = 0;
  }
}

void mark_missing_codes(Column& column, const Attribute& attribute, size_t categories) {
  if (!is_integer(attribute.type)) {
    throw CorruptData("attribute '" + attribute.name + "' of type " +
                      std::string(name_of(attribute.type)) + " has an enumeration");
  }
  visit_integer(attribute.type, [&]<typename T>(std::type_identity<T>) {
    mark_missing_codes<T>(column, attribute.fill_value, categories);
  });
}

bool has_dictionary_filter(const codec::FilterPipeline& filters) {
  return std::any_of(filters.filters().begin(), filters.filters().end(), [](const auto& filter) {
    return filter.type == codec::FilterType::kDictionary;
  });
}

}  // namespace

ArrayReader::ArrayReader(ArrayDirectory directory, unsigned threads)
    : directory_(std::move(directory)),
      threads_(thread_count(threads)),
      lazy_(std::make_unique<OnDemand>()) {}

ArrayReader::~ArrayReader() = default;

std::shared_ptr<const ArrayReader> ArrayReader::open(io::StorePtr store, const std::string& path,
                                                     TimeRange range, unsigned threads) {
  return with_place(
      [&] {
        std::shared_ptr<ArrayReader> reader(
            new ArrayReader(ArrayDirectory::load(std::move(store), path, range), threads));
        const ArraySchemas schemas = reader->directory_.load_schemas();
        const auto latest = schemas.find(reader->directory_.latest_schema_name());
        if (latest == schemas.end()) throw CorruptData("the array has no schema");
        reader->schema_ = latest->second;
        reader->open_fragments(schemas);
        if (!reader->schema_->dense()) {
          reader->deletes_ = DeleteFilter::load(reader->directory_, *reader->schema_);
          reader->find_overlaps();
          reader->find_outside_domain();
        }
        return std::shared_ptr<const ArrayReader>(std::move(reader));
      },
      [&] { return "array " + path; });
}

void ArrayReader::open_fragments(const ArraySchemas& schemas) {
  const std::vector<FragmentLocation> locations = directory_.fragments(schema_->dense());
  const auto footers = directory_.load_consolidated_footers(locations);
  std::vector<std::shared_ptr<FragmentMetadata>> loaded(locations.size());
  // A footer is two small reads, so threads only pay for many footers.
  parallel_for(locations.size(), locations.size() < 8 ? 1 : threads_, [&](size_t i) {
    loaded[i] = FragmentMetadata::load(directory_.store(), locations[i], schemas, &footers);
    if (loaded[i]->has_delete_metadata()) loaded[i]->load_processed_conditions();
  });
  for (auto& fragment : loaded) {
    if (fragment->dense() != schema_->dense()) {
      throw Unsupported("fragment " + fragment->location().path +
                        " is sparse in a dense array; consolidate it with TileDB 2.7 or older");
    }
    if (fragment->tile_count() > 0 && !fragment->footer().non_empty_domain.empty()) {
      fragments_.push_back(std::move(fragment));
    }
  }
}

void ArrayReader::find_overlaps() {
  const std::span<const Dimension> dimensions = schema_->dimensions;
  overlapping_.assign(fragments_.size(), 0);
  for (size_t a = 0; a < fragments_.size(); ++a) {
    const NDRange& box = fragments_[a]->footer().non_empty_domain;
    for (size_t b = a + 1; b < fragments_.size(); ++b) {
      if (boxes_overlap(dimensions, box, fragments_[b]->footer().non_empty_domain)) {
        overlapping_[a] = overlapping_[b] = 1;
      }
    }
  }
  read_order_.resize(fragments_.size());
  std::iota(read_order_.begin(), read_order_.end(), size_t{0});
  const bool one_integer = dimensions.size() == 1 && is_integral(dimensions[0]);
  const bool disjoint =
      std::none_of(overlapping_.begin(), overlapping_.end(), [](uint8_t o) { return o != 0; });
  const bool global_is_ascending =
      schema_->cell_order == Layout::kRowMajor || schema_->cell_order == Layout::kColMajor;
  if (one_integer && disjoint) {
    const auto first_coordinate = [&](size_t f) {
      return read_integer(dimensions[0].type,
                          fragments_[f]->footer().non_empty_domain[0].min().data());
    };
    std::sort(read_order_.begin(), read_order_.end(),
              [&](size_t a, size_t b) { return first_coordinate(a) < first_coordinate(b); });
    // Unsigned 64-bit coordinates past 2^63 would sort first.
    ascending_ = global_is_ascending && dimensions[0].type != DataType::kUInt64;
  }
  if (schema_->allows_duplicates) {
    overlapping_.assign(fragments_.size(), 0);
    return;
  }
  for (size_t f = 0; f < fragments_.size(); ++f) {
    // Consolidation with timestamps keeps replaced cells. If coordinates ascend, equal ones are
    // neighbours and read_run handles them.
    if (fragments_[f]->has_timestamps() && !ascending_) overlapping_[f] = 1;
  }
}

// No cell can be written outside the current domain, but the schema that is read may be older than
// the fragments. Cells beyond its domain are not part of the array at that time.
void ArrayReader::find_outside_domain() {
  outside_.assign(fragments_.size(), 0);
  if (schema_->current_domain.empty()) return;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const NDRange& box = fragments_[f]->footer().non_empty_domain;
    if (!box_contains(schema_->dimensions, schema_->current_domain, box)) outside_[f] = 1;
  }
}

const std::vector<ColumnInfo>& ArrayReader::columns() const {
  return lazy_->columns.get([&] {
    std::vector<ColumnInfo> infos;
    const auto add = [&](const std::string& name, DataType type, bool is_index) -> ColumnInfo& {
      ColumnInfo info;
      info.name = name;
      info.type = type;
      info.is_index = is_index;
      for (const auto& fragment : fragments_) {
        const FragmentField* field = fragment->find_field(name);
        if (field == nullptr) continue;
        info.stored_bytes += fragment->file_bytes(*field, TilePart::kData);
        if (field->var_length()) info.stored_bytes += fragment->file_bytes(*field, TilePart::kVar);
        if (field->nullable) info.stored_bytes += fragment->file_bytes(*field, TilePart::kValidity);
      }
      infos.push_back(std::move(info));
      return infos.back();
    };
    for (const Dimension& dimension : schema_->dimensions) {
      add(dimension.name, dimension.type, true);
    }
    for (const Attribute& attribute : schema_->attributes) {
      ColumnInfo& info = add(attribute.name, attribute.type, false);
      info.nullable = attribute.nullable;
      if (!attribute.has_enumeration()) continue;
      const auto values = categories(attribute);
      info.enumerated = true;
      info.ordered = values->ordered;
      info.type = values->type;
    }
    return infos;
  });
}

const ColumnInfo& ArrayReader::column(std::string_view name) const {
  std::string known;
  for (const ColumnInfo& info : columns()) {
    if (info.name == name) return info;
    known += (known.empty() ? "" : ", ") + info.name;
  }
  throw NotFound("there is no column '" + std::string(name) + "'; choose from " + known +
                 ", in array " + path());
}

std::shared_ptr<const Categories> ArrayReader::categories(const Attribute& attribute) const {
  const MutexLock lock(lazy_->categories_mutex);
  auto& held = lazy_->categories[attribute.enumeration];
  if (!held) {
    held = to_categories(
        *load_enumeration(*directory_.store(), path(), *schema_, attribute.enumeration));
  }
  return held;
}

Column ArrayReader::finish(Column&& raw, const Attribute& attribute) const {
  Column column = std::move(raw);
  if (attribute.has_enumeration()) {
    column.categories = categories(attribute);
    column.type = column.categories->type;
    column.code_type = attribute.type;
    mark_missing_codes(column, attribute, column.categories->size());
    try {
      table::narrow_codes(column);
    } catch (const CorruptData& error) {
      throw CorruptData(std::string(error.what()) + ", in array " + path() +
                        "; at the time at which it is read they have not been added yet, or it is "
                        "damaged");
    }
  } else if (attribute.var_length() && has_dictionary_filter(attribute.filters)) {
    table::encode_strings(column);
  }
  return column;
}

Table ArrayReader::read(const ArrayReadRequest& request) const {
  for (const std::string& name : request.columns) column(name);
  if (schema_->dense()) return read_dense(request);
  RunParts<Table> parts;
  read_runs(request, [&](size_t run, Table&& part) { parts.put(run, std::move(part)); });
  std::vector<Table> tables;
  tables.push_back(empty_table(request));
  for (Table& part : parts.take()) {
    if (part.row_count > 0) tables.push_back(std::move(part));
  }
  return table::concatenate(std::move(tables));
}

Table ArrayReader::empty_table(const ArrayReadRequest& request) const {
  Table empty;
  for (const std::string& name : column_names(request)) {
    if (const auto dimension = schema_->find_dimension(name)) {
      const Dimension& found = schema_->dimensions[*dimension];
      empty.columns.push_back(empty_column(name, found.type, found.cell_val_num));
    } else {
      const Attribute& found = schema_->attributes[*schema_->find_attribute(name)];
      empty.columns.push_back(finish(empty_column(name, found.type, found.cell_val_num), found));
    }
  }
  return empty;
}

std::vector<std::string> ArrayReader::column_names(const ArrayReadRequest& request) const {
  if (!request.columns.empty()) return request.columns;
  std::vector<std::string> names;
  for (const ColumnInfo& info : columns()) names.push_back(info.name);
  return names;
}

uint64_t ArrayReader::cell_count() const {
  if (schema_->dense()) return dense_cell_count();
  uint64_t stored = 0;
  bool exact = deletes_.empty();
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const FragmentMetadata& fragment = *fragments_[f];
    stored += fragment.cell_count();
    const bool repeats = !schema_->allows_duplicates && fragment.has_timestamps();
    const bool partly = fragment.location().partly_in_range && fragment.has_timestamps();
    exact = exact && overlapping_[f] == 0 && outside_[f] == 0 && !repeats && !partly &&
            !fragment.has_delete_metadata();
  }
  if (exact) return stored;
  std::atomic<uint64_t> counted{0};
  read_runs({.columns = {schema_->dimensions[0].name}},
            [&](size_t, Table&& part) { counted += part.row_count; });
  return counted;
}

std::optional<RowSelection> ArrayReader::coordinates_without_reading() const {
  if (!ascending_ || !deletes_.empty() || schema_->allows_duplicates) return std::nullopt;
  RowSelection rows;
  for (const size_t f : read_order_) {
    const FragmentMetadata& fragment = *fragments_[f];
    if (fragment.has_timestamps() || fragment.has_delete_metadata() || outside_[f] != 0) {
      return std::nullopt;
    }
    const DataType type = schema_->dimensions[0].type;
    const Range& box = fragment.footer().non_empty_domain[0];
    const int64_t first = read_integer(type, box.min().data());
    const int64_t last = read_integer(type, box.max().data());
    if (first < 0 || static_cast<uint64_t>(last - first) + 1 != fragment.cell_count()) {
      return std::nullopt;
    }
    rows = rows | RowSelection::range(first, last + 1);
  }
  return rows;
}

Table read_array(const std::string& uri, const std::vector<std::string>& columns,
                 uint64_t timestamp_start, uint64_t timestamp_end, unsigned threads) {
  const auto reader = ArrayReader::open(io::store_for(uri), io::normalize(uri),
                                        {timestamp_start, timestamp_end}, threads);
  return reader->read({.columns = columns});
}

}  // namespace penstock::format::tiledb
