#include "format/cache/cached_rows.h"

#include <penstock/error.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

/// Ids, places and shapes of a row in flight.
constexpr double kRowBytes = 128;

/// Rows of a unit that the cache would not keep, in memory.
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
      throw InvalidArgument("row " + std::to_string(row) + " is none of those to be read");
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

/// Buffers of a read that has several sources.
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
    // A record of those that are measured is damaged or gone, and will be mended when it is read.
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
    throw InvalidArgument("row " + std::to_string(row) + " is outside the matrix");
  }
  return static_cast<uint32_t>(found - units.begin());
}

void CachedRowReader::read(std::span<const int64_t> rows, RowBuffer& out) const {
  if (!any_mended_) {
    try {
      kept_->read(rows, out);
      count_as_cached(out);
      return;
    } catch (const InvalidArgument&) {
      throw;
    } catch (const Error&) {
      // Damaged or gone: which, is found row by row.
    }
  }
  while (!read_apart(rows, out)) {
  }
}

RowReaderPtr CachedRowReader::mended(uint32_t unit) const {
  const std::lock_guard lock(mutex_);
  const auto found = mended_.find(unit);
  return found == mended_.end() ? nullptr : found->second;
}

/// False when something more was mended: then it is tried again.
bool CachedRowReader::read_apart(std::span<const int64_t> rows, RowBuffer& out) const {
  auto parts = std::make_unique<Parts>();
  std::map<uint32_t, std::vector<int64_t>> apart;
  std::vector<int64_t> together;
  for (const int64_t row : rows) {
    const uint32_t unit = unit_of(row);
    if (mended(unit) != nullptr) {
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
        mend(unit_of(row), nullptr);
        ++found;
      }
    }
    if (found == 0) throw;  // it was a passing trouble, or none of a row
    return false;
  }
  for (const auto& [unit, wanted] : apart) {
    const RowReaderPtr from = mended(unit);
    try {
      from->read(wanted, parts->units[unit]);
    } catch (const Error&) {
      mend(unit, from.get());  // removed again: this time it stays in memory
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

void CachedRowReader::mend(uint32_t unit, const RowReader* failed) const {
  const std::lock_guard lock(mutex_);
  const auto before = mended_.find(unit);
  const bool again = before != mended_.end();
  if (again && before->second.get() != failed) return;  // by another thread
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
  mended_[unit] = std::move(rows);
  any_mended_ = true;
}

}  // namespace penstock::format::pack
