#include "format/cache/cached_rows.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

/// Ids, places and shapes of a row in flight.
constexpr double kRowBytes = 128;

/// Rows of one unit in memory, for units that the cache could not keep.
class RowsInMemory final : public RowReader {
 public:
  RowsInMemory(const RecordUnpacker& unpacker, EncodedRows encoded)
      : unpacker_(unpacker), encoded_(std::move(encoded)) {
    size_t offset = 0;
    for (const size_t length : encoded_.lengths) {
      offsets_.push_back(offset);
      offset += length;
    }
    encoded_.bytes.resize(encoded_.bytes.size() + kRecordSlack);
  }

  const kernel::PackedRowLayout& row_layout() const override { return unpacker_.layout(); }
  void read(std::span<const int64_t> rows, RowBuffer& out) const override {
    size_t bytes = 0;
    for (const int64_t row : rows) bytes += unpacker_.most_bytes(unpacker_.shape(record(row)));
    out.bytes.resize_discard(bytes);
    out.records.clear();
    out.nnz.clear();
    out.bytes_read = out.cached_bytes = out.read_count = 0;
    std::byte* to = out.bytes.data();
    for (const int64_t row : rows) {
      const RowShape shape = unpacker_.unpack(record(row), unpacker_.shape(record(row)), to);
      out.records.push_back(to);
      out.nnz.push_back(shape.nnz);
      to += row_layout().record_bytes(shape.nnz, shape.wide_count);
    }
  }
  double buffer_bytes_per_row() const override { return 0; }
  uint64_t bytes_needed(std::span<const int64_t> /*rows*/) const override { return 0; }

 private:
  std::span<const std::byte> record(int64_t row) const {
    const auto found = std::lower_bound(encoded_.rows.begin(), encoded_.rows.end(), row);
    if (found == encoded_.rows.end() || *found != row) {
      throw InvalidArgument(concat("row ", row, " is none of those to be read"));
    }
    const auto i = static_cast<size_t>(found - encoded_.rows.begin());
    return {encoded_.bytes.data() + offsets_[i], encoded_.lengths[i]};
  }

  const RecordUnpacker& unpacker_;
  EncodedRows encoded_;
  std::vector<size_t> offsets_;
};

}  // namespace

namespace {

void count_as_cached(RowBuffer& buffer) {
  buffer.cached_bytes = buffer.bytes_read;
  buffer.bytes_read = buffer.read_count = 0;
}

}  // namespace

/// Buffers of a read from several sources.
struct CachedRowReader::Parts final : RowBuffer::Scratch {
  std::map<uint32_t, RowBuffer> units;
  RowBuffer kept;
};

CachedRowReader::CachedRowReader(std::shared_ptr<const CachedReader> reader,
                                 std::shared_ptr<const PackedLayer> layer,
                                 std::span<const int64_t> columns, RowSelection rows)
    : reader_(std::move(reader)),
      columns_(columns.begin(), columns.end()),
      rows_(std::move(rows)),
      layer_(std::move(layer)),
      kept_(open_layer(layer_)->reader(columns_)->row_reader(rows_)) {}

double CachedRowReader::buffer_bytes_per_row() const {
  try {
    return kept_->buffer_bytes_per_row();
  } catch (const Error&) {
    // A sampled record is damaged or missing. It is rebuilt when it is read.
  }
  double rows = 1;
  double bytes = 0;
  for (const auto& file : layer_->files) {
    rows += static_cast<double>(file->rows().size());
    bytes += static_cast<double>(file->record_bytes()) +
             static_cast<double>(file->nonzeros()) *
                 static_cast<double>(row_layout().index_bytes + row_layout().value_bytes);
  }
  return bytes / rows + kRowBytes;
}

uint32_t CachedRowReader::unit_of(int64_t row) const {
  const auto units = reader_->source().units();
  const auto found = std::upper_bound(
      units.begin(), units.end(), row,
      [](int64_t wanted, const plan::FetchUnit& unit) { return wanted < unit.row_end; });
  if (found == units.end() || row < 0) {
    throw InvalidArgument(concat("row ", row, " is outside the matrix"));
  }
  return static_cast<uint32_t>(found - units.begin());
}

void CachedRowReader::read(std::span<const int64_t> rows, RowBuffer& out) const {
  if (!any_repaired_) {
    try {
      kept_->read(rows, out);
      count_as_cached(out);
      return;
    } catch (const InvalidArgument&) {
      throw;
    } catch (const Error&) {
      // Damaged or missing: reading row by row finds which.
    }
  }
  while (!read_apart(rows, out)) {
  }
}

RowReaderPtr CachedRowReader::repaired(uint32_t unit) const {
  const MutexLock lock(mutex_);
  const auto found = repaired_.find(unit);
  return found == repaired_.end() ? nullptr : found->second;
}

/// Returns false if another unit was rebuilt; then call it again.
bool CachedRowReader::read_apart(std::span<const int64_t> rows, RowBuffer& out) const {
  auto parts = std::make_unique<Parts>();
  std::map<uint32_t, std::vector<int64_t>> apart;
  std::vector<int64_t> together;
  for (const int64_t row : rows) {
    const uint32_t unit = unit_of(row);
    if (repaired(unit) != nullptr) {
      apart[unit].push_back(row);
    } else {
      together.push_back(row);
    }
  }
  try {
    kept_->read(together, parts->kept);
  } catch (const Error&) {
    uint32_t found = 0;
    for (const int64_t row : together) {
      try {
        kept_->read(std::span(&row, 1), parts->kept);
      } catch (const Error&) {
        repair(unit_of(row), nullptr);
        ++found;
      }
    }
    if (found == 0) throw;  // a temporary error, or not of a row
    return false;
  }
  for (const auto& [unit, wanted] : apart) {
    const RowReaderPtr from = repaired(unit);
    try {
      from->read(wanted, parts->units[unit]);
    } catch (const Error&) {
      repair(unit, from.get());  // removed again: keep it in memory this time
      return false;
    }
  }

  out.records.clear();
  out.nnz.clear();
  out.bytes_read = parts->kept.bytes_read;
  for (const auto& [unit, buffer] : parts->units) out.bytes_read += buffer.bytes_read;
  count_as_cached(out);
  std::map<uint32_t, size_t> next;
  size_t next_together = 0;
  for (const int64_t row : rows) {
    const uint32_t unit = unit_of(row);
    const bool is_apart = apart.contains(unit);
    RowBuffer& from = is_apart ? parts->units[unit] : parts->kept;
    const size_t i = is_apart ? next[unit]++ : next_together++;
    out.records.push_back(from.records[i]);
    out.nnz.push_back(from.nnz[i]);
  }
  out.scratch = std::move(parts);
  return true;
}

void CachedRowReader::repair(uint32_t unit, const RowReader* failed) const {
  const MutexLock lock(mutex_);
  const auto before = repaired_.find(unit);
  const bool again = before != repaired_.end();
  if (again && before->second.get() != failed) return;  // another thread has rebuilt it
  const plan::FetchUnit& place = reader_->source().units()[unit];
  std::vector<int64_t> wanted;
  rows_.copy_range(place.row_begin, place.row_end, wanted);
  if (const auto file = reader_->cache().find(place, wanted)) {
    reader_->cache().drop(place, *file);
  }
  EncodedRows encoded = reader_->refill(unit, wanted);
  RowReaderPtr rows;
  auto file = again ? nullptr : reader_->cache().find(place, wanted);
  if (file != nullptr) {
    rows = open_layer(make_layer({std::move(file)}, reader_->source().info()))
               ->reader(columns_)
               ->row_reader(rows_);
  } else {
    rows = std::make_shared<const RowsInMemory>(reader_->unpacker(), std::move(encoded));
  }
  repaired_[unit] = std::move(rows);
  any_repaired_ = true;
}

}  // namespace penstock::format::pack
