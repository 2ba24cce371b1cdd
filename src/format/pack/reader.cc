#include "format/pack/reader.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/concat.h"
#include "format/pack/record_rows.h"
#include "format/pack/unit_decode.h"

namespace penstock::format::pack {
namespace {

/// Records on one page are read together.
constexpr uint64_t kRowGap = 4096;
/// Ids, places and shapes of a row in flight.
constexpr uint64_t kRowBytes = 64;

/// Memory of a reading thread without its rows.
struct RowScratch final : RowBuffer::Scratch {
  std::vector<RowLocation> sorted;
  std::vector<uint32_t> order;  ///< index of each of `sorted` among the rows to read
  std::vector<const std::byte*> stored;
  std::vector<std::byte*> to;  ///< by run
  std::vector<RowShape> shapes;
  Buffer bytes;
};

RowScratch& scratch_of(RowBuffer& buffer) {
  auto* own = dynamic_cast<RowScratch*>(buffer.scratch.get());
  if (own == nullptr) {
    auto made = std::make_unique<RowScratch>();
    own = made.get();
    buffer.scratch = std::move(made);
  }
  return *own;
}

void check_row(int64_t row, const MatrixInfo& info) {
  if (row < 0 || row >= info.row_domain_end) {
    throw InvalidArgument(concat("row ", row, " is outside 0 … ", info.row_domain_end - 1));
  }
}

/// Rows in the order of their records.
void locate(const PackedLayer& layer, std::span<const int64_t> rows, RowScratch& scratch) {
  std::vector<RowLocation> places(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    check_row(rows[i], layer.info);
    places[i] = layer.find(rows[i]);
  }
  scratch.order.resize(rows.size());
  std::iota(scratch.order.begin(), scratch.order.end(), 0U);
  std::sort(scratch.order.begin(), scratch.order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(places[a].file, places[a].place.offset) <
           std::pair(places[b].file, places[b].place.offset);
  });
  scratch.sorted.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) scratch.sorted[i] = places[scratch.order[i]];
}

}  // namespace

PackReader::PackReader(std::shared_ptr<const PackedLayer> layer, std::span<const int64_t> columns)
    : layer_(std::move(layer)),
      unpacker_(layer_->stored_columns, layer_->info.column_domain_end, layer_->info.value_type,
                columns) {}

std::unique_ptr<UnitDecode> PackReader::start(uint32_t unit, std::vector<int64_t> rows,
                                              std::unique_ptr<UnitDecode> recycled) const {
  if (unit >= layer_->units.size()) {
    throw InvalidArgument(concat("no fetch unit ", unit));
  }
  const plan::FetchUnit& place = layer_->units[unit];
  if (!rows.empty() && (rows.front() < place.row_begin || rows.back() >= place.row_end)) {
    throw InvalidArgument(
        concat("rows ", rows.front(), " … ", rows.back(), " are not all in fetch unit ", unit));
  }
  std::unique_ptr<PackUnitDecode> decode;
  if (auto* own = dynamic_cast<PackUnitDecode*>(recycled.get());
      own != nullptr && own->reader() == this) {
    recycled.release();
    decode.reset(own);
  } else {
    decode = std::make_unique<PackUnitDecode>(shared_from_this());
  }
  decode->start(std::move(rows));
  return decode;
}

uint64_t PackReader::in_flight_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = layer_->units.at(unit);
  const auto rows =
      static_cast<uint64_t>(std::min<int64_t>(place.row_end - place.row_begin, int64_t{kUnitRows}));
  uint64_t bytes = place.stored_bytes + kRecordSlack + rows * kRowBytes;
  if (!unpacker_.all_columns()) {
    // Staged rows, in vectors that grow by half.
    bytes += static_cast<uint64_t>(static_cast<double>(place.cell_bound) * packed_bytes_per_cell() *
                                   1.5);
  }
  return bytes;
}

uint64_t PackReader::decode_bytes(uint32_t unit, std::span<const int64_t> rows) const {
  // More than records of values that repeat grow by when they are unpacked.
  constexpr uint64_t kMostRatio = 32;
  const uint64_t cell_bytes = row_layout().value_bytes + uint64_t{row_layout().index_bytes} + 1;
  return std::min(layer_->units.at(unit).cell_bound * cell_bytes,
                  bytes_needed(RowSelection::from_sorted(rows)) * kMostRatio);
}

uint64_t PackReader::bytes_needed(const RowSelection& rows) const {
  uint64_t bytes = 0;
  std::vector<int64_t> ids;
  for (const auto& file : layer_->files) {
    const RowSelection wanted = rows & file->rows();
    if (wanted.size() == file->rows().size()) {
      bytes += file->record_bytes();
      continue;
    }
    ids.clear();
    wanted.copy_positions(0, wanted.size(), ids);
    for (const int64_t id : ids) {
      RecordPlace place;
      file->find(id, place);
      bytes += place.length;
    }
  }
  return bytes;
}

uint64_t PackReader::visit_bytes(uint32_t unit, const RowSelection& rows) const {
  const plan::FetchUnit& place = layer_->units.at(unit);
  const auto own = rows & RowSelection::range(place.row_begin, place.row_end);
  const bool whole = own.size() == static_cast<uint64_t>(place.row_end - place.row_begin);
  return whole ? place.stored_bytes : bytes_needed(own);
}

const PackReader::Sample& PackReader::sample() const {
  return sample_.get([&] { return take_sample(); });
}

PackReader::Sample PackReader::take_sample() const {
  const SampledRows& sampled = layer_->sampled_rows();
  Sample sample;
  if (sampled.ids.empty()) return sample;
  uint64_t stored_cells = 0;
  uint64_t stored_bytes = 0;
  uint64_t packed_bytes = 0;
  std::vector<uint64_t> row;  // aligned
  for (size_t i = 0; i < sampled.ids.size(); ++i) {
    const auto record = sampled.records[i];
    with_place(
        [&] {
          unpacker_.check(record);
          const RowShape shape = unpacker_.shape(record);
          row.resize(unpacker_.most_bytes(shape) / sizeof(uint64_t) + 1);
          const RowShape left =
              unpacker_.unpack(record, shape, reinterpret_cast<std::byte*>(row.data()));
          stored_cells += shape.nnz;
          packed_bytes += row_layout().record_bytes(left.nnz, left.wide_count);
        },
        [&] {
          return record_place(sampled.ids[i], sampled.stored[i],
                              *layer_->files[sampled.stored[i].file]);
        });
    stored_bytes += record.size();
  }
  if (stored_cells != 0) {
    sample.packed_bytes = static_cast<double>(packed_bytes) / static_cast<double>(stored_cells);
  }
  const auto rows = static_cast<double>(sampled.ids.size());
  sample.stored_bytes_per_row = static_cast<double>(stored_bytes) / rows;
  sample.packed_bytes_per_row = static_cast<double>(packed_bytes) / rows;
  return sample;
}

RowReaderPtr PackReader::row_reader(const RowSelection& /*rows*/) const {
  return std::make_shared<const PackRowReader>(shared_from_this());
}

void PackRowReader::read(std::span<const int64_t> rows, RowBuffer& out) const {
  const PackedLayer& layer = reader_->layer();
  const RecordUnpacker& unpacker = reader_->unpacker();
  RowScratch& scratch = scratch_of(out);
  locate(layer, rows, scratch);
  const auto runs = runs_of(scratch.sorted, layer.files, kRowGap);
  uint64_t stored_bytes = 0;
  for (const RecordRun& run : runs) stored_bytes += run.length;
  scratch.bytes.resize_discard(stored_bytes + kRecordSlack);
  scratch.stored.assign(rows.size(), nullptr);
  out.bytes_read = stored_bytes;
  out.cached_bytes = 0;
  out.read_count = runs.size();
  std::byte* next = scratch.bytes.data();
  scratch.to.clear();
  for (const RecordRun& run : runs) {
    scratch.to.push_back(next);
    for (size_t i = run.begin; i < run.end; ++i) {
      scratch.stored[i] = next + (scratch.sorted[i].place.offset - run.offset);
    }
    next += run.length;
  }
  read_runs(runs, layer.files, scratch.to);
  std::memset(next, 0, kRecordSlack);

  scratch.shapes.resize(rows.size());
  size_t packed_bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span record(scratch.stored[i], scratch.sorted[i].place.length);
    with_place(
        [&] {
          unpacker.check(record);
          scratch.shapes[i] = unpacker.shape(record);
        },
        [&] {
          return record_place(rows[scratch.order[i]], scratch.sorted[i],
                              *layer.files[scratch.sorted[i].file]);
        });
    packed_bytes += unpacker.most_bytes(scratch.shapes[i]);
  }
  out.bytes.resize_discard(packed_bytes);
  out.records.resize(rows.size());
  out.nnz.resize(rows.size());
  std::byte* to = out.bytes.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t number = scratch.order[i];
    const std::span record(scratch.stored[i], scratch.sorted[i].place.length);
    const RowShape shape =
        with_place([&] { return unpacker.unpack(record, scratch.shapes[i], to); },
                   [&] {
                     return record_place(rows[number], scratch.sorted[i],
                                         *layer.files[scratch.sorted[i].file]);
                   });
    out.records[number] = to;
    out.nnz[number] = shape.nnz;
    to += row_layout().record_bytes(shape.nnz, shape.wide_count);
  }
}

void PackRowReader::prefetch(std::span<const int64_t> rows) const noexcept {
  try {
    const PackedLayer& layer = reader_->layer();
    if (reader_->remote()) return;  // a batch already takes one round trip
    RowScratch scratch;
    locate(layer, rows, scratch);
    for (const RecordRun& run : runs_of(scratch.sorted, layer.files, kRowGap)) {
      layer.files[run.file]->will_need(run.offset, run.length);
    }
  } catch (...) {
    // read() will throw the error.
  }
}

double PackRowReader::buffer_bytes_per_row() const {
  const PackReader::Sample& sample = reader_->sample();
  return sample.stored_bytes_per_row + sample.packed_bytes_per_row + 2.0 * kRowBytes;
}

uint64_t PackRowReader::request_bytes() const {
  const PackedLayer& layer = reader_->layer();
  return reader_->remote() ? layer.files.front()->store().traits().coalescing.max_gap_bytes : 0;
}

uint64_t PackRowReader::bytes_needed(std::span<const int64_t> rows) const {
  uint64_t bytes = 0;
  for (const int64_t row : rows) {
    check_row(row, reader_->layer().info);
    bytes += reader_->layer().find(row).place.length;
  }
  return bytes;
}

}  // namespace penstock::format::pack
