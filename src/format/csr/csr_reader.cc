#include "format/csr/csr_reader.h"

#include <penstock/error.h>

#include <algorithm>
#include <array>

#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/csr/csr_row_reader.h"
#include "format/recent_readers.h"
#include "format/sampled_rows.h"
#include "format/unit_rows.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

constexpr size_t kSampleUnits = 8;
constexpr int64_t kSampleRows = 64;
/// A row's entry, its id, and its wide values' share of a task.
constexpr uint64_t kRowBytes = sizeof(CsrRow) + sizeof(int64_t);

class CsrSource final : public MatrixSource {
 public:
  explicit CsrSource(std::shared_ptr<const CsrArray> array) : array_(std::move(array)) {}

  const MatrixInfo& info() const override { return array_->info(); }
  std::span<const plan::FetchUnit> units() const override { return array_->units(); }
  std::string content() const override { return array_->content(); }
  MatrixSourcePtr in_order() const override {
    auto array = array_->in_order();
    return array ? make_csr_source(std::move(array)) : nullptr;
  }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return readers_.get(columns,
                        [&] { return std::make_shared<const CsrReader>(array_, columns); });
  }

 private:
  const std::shared_ptr<const CsrArray> array_;
  RecentReaders<CsrReader> readers_;
};

}  // namespace

MatrixSourcePtr make_csr_source(std::shared_ptr<const CsrArray> array) {
  return std::make_shared<const CsrSource>(std::move(array));
}

CsrReader::CsrReader(std::shared_ptr<const CsrArray> array, std::span<const int64_t> columns)
    : array_(std::move(array)),
      columns_(columns, array_->info().column_domain_end),
      layout_(kernel::make_row_layout(columns.size(), array_->info().value_type)),
      all_columns_(static_cast<int64_t>(columns.size()) == array_->info().column_domain_end),
      id_bytes_(array_->info().column_domain_end <= 65536 ? 2 : 4) {}

std::unique_ptr<UnitDecode> CsrReader::start(uint32_t unit, std::vector<int64_t> rows,
                                             std::unique_ptr<UnitDecode> recycled) const {
  check_unit_rows(array_->units(), unit, rows);
  auto decode = recycle_or_make<CsrDecode>(std::move(recycled), shared_from_this());
  decode->start(std::move(rows));
  return decode;
}

uint64_t CsrReader::in_flight_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  const auto elements = static_cast<double>(place.cell_bound);
  const auto rows =
      static_cast<uint64_t>(std::min<int64_t>(place.row_end - place.row_begin, int64_t{1} << 20));
  return place.stored_bytes +
         static_cast<uint64_t>(elements * (id_bytes_ + 1.0 + sample().wide_bytes)) +
         rows * kRowBytes + scratch_bytes();
}

// The scratch of a task grows with threads, not with the unit, but is counted once for each unit:
// the split of the budget decides the order of rows, which must not depend on threads.
uint64_t CsrReader::scratch_bytes() const {
  uint64_t most = 0;
  for (const CsrPart part : {CsrPart::kIndices, CsrPart::kData}) {
    if (array_->addresses_elements(part)) continue;
    most = std::max(most, array_->array(part).info().decoded_bytes());
  }
  return most;
}

uint64_t CsrReader::decode_bytes(uint32_t /*unit*/, std::span<const int64_t> rows) const {
  uint64_t element_bytes = id_bytes_ + 1 + 3 * uint64_t{layout_.value_bytes};
  for (const CsrPart part : {CsrPart::kIndices, CsrPart::kData}) {
    element_bytes += array_->array(part).info().cell_bytes;
  }
  return elements_of(rows) * element_bytes + scratch_bytes();
}

uint64_t CsrReader::elements_of(std::span<const int64_t> rows) const {
  if (rows.empty()) return 0;
  return array_->offsets().end(static_cast<uint64_t>(rows.back())) -
         array_->offsets().begin(static_cast<uint64_t>(rows.front()));
}

uint64_t CsrReader::fetched_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  const auto rows =
      static_cast<uint64_t>(std::min<int64_t>(place.row_end - place.row_begin, int64_t{1} << 20));
  // Gaps that are read over, and the unit's own memory before its pieces are decoded.
  return place.stored_bytes + place.stored_bytes / 16 + (uint64_t{64} << 10) + rows * kRowBytes;
}

double CsrReader::bytes_per_element() const {
  double stored = 0;
  for (const CsrPart part : {CsrPart::kIndices, CsrPart::kData}) {
    stored += array_->array(part).info().cell_bytes;
  }
  return stored + id_bytes_ + 1.0 + sample().wide_bytes + sample().packed_bytes;
}

RowReaderPtr CsrReader::row_reader(const RowSelection& /*rows*/) const {
  if (!array_->addresses_elements() || remote()) return nullptr;
  return std::make_shared<const CsrRowReader>(shared_from_this());
}

bool CsrReader::remote() const { return array_->array(CsrPart::kData).store().traits().remote; }

uint64_t CsrReader::bytes_needed(const RowSelection& rows) const {
  return array_->bytes_of(rows, 0, array_->info().row_domain_end);
}

uint64_t CsrReader::visit_bytes(uint32_t unit, const RowSelection& rows) const {
  const plan::FetchUnit& place = array_->units().at(unit);
  return array_->bytes_of(rows, place.row_begin, place.row_end);
}

const CsrReader::Sample& CsrReader::sample() const {
  return sample_.get([&] { return take_sample(); });
}

// Decodes consecutive rows in the middle of a few units: one chunk of each array, or two. A remote
// store answers for all of them at the same time.
CsrReader::Sample CsrReader::take_sample() const {
  const auto& units = array_->units();
  const size_t step = std::max<size_t>(1, units.size() / kSampleUnits);
  std::vector<uint32_t> sampled;
  for (size_t unit = step / 2; unit < units.size(); unit += step) {
    sampled.push_back(static_cast<uint32_t>(unit));
  }
  struct Bytes {
    uint64_t rows = 0, stored = 0, packed = 0, wide = 0;
  };
  std::vector<Bytes> bytes(sampled.size());
  parallel_for(sampled.size(), remote() ? static_cast<unsigned>(sampled.size()) : 1, [&](size_t i) {
    const plan::FetchUnit& place = units[sampled[i]];
    auto rows = rows_to_sample(*this, sampled[i], place, kSampleRows, SampledPart::kMiddle);
    if (rows.empty()) return;
    bytes[i].rows = rows.size();
    bytes[i].stored = elements_of(rows);
    const auto decode = start(sampled[i], std::move(rows), nullptr);
    decode->fetch();
    for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
      for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
    }
    for (uint32_t row = 0; row < decode->row_count(); ++row) {
      bytes[i].packed += decode->packed_bytes(row) - sizeof(kernel::PackedRowHeader);
      const uint32_t wide = decode->wide_count(row);
      bytes[i].wide +=
          uint64_t{wide == kernel::kRawRow ? decode->nnz(row) : wide} * layout_.value_bytes;
    }
  });
  Bytes sum;
  for (const Bytes& each : bytes) {
    sum.rows += each.rows;
    sum.stored += each.stored;
    sum.packed += each.packed;
    sum.wide += each.wide;
  }
  if (sum.rows == 0 && !units.empty()) {  // all too large: at most, each value is wide
    return {layout_.index_bytes + 1.0 + layout_.value_bytes, 2.0 * layout_.value_bytes};
  }
  if (sum.stored == 0) return {layout_.index_bytes + 1.0, 0};
  const auto stored = static_cast<double>(sum.stored);
  // Raw segments hold their values once, and rows copy them.
  return {static_cast<double>(sum.packed) / stored, 2 * static_cast<double>(sum.wide) / stored};
}

}  // namespace penstock::format
