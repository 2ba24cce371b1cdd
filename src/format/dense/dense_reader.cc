#include "format/dense/dense_reader.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/concat.h"
#include "format/chunked/forward_array.h"
#include "format/recent_readers.h"
#include "format/sampled_rows.h"
#include "format/unit_rows.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

class DenseSource final : public MatrixSource {
 public:
  explicit DenseSource(std::shared_ptr<const DenseMatrix> matrix) : matrix_(std::move(matrix)) {}

  const MatrixInfo& info() const override { return matrix_->info(); }
  std::span<const plan::FetchUnit> units() const override { return matrix_->units(); }
  std::string content() const override {
    const MatrixInfo& own = matrix_->info();
    const std::string version = matrix_->array().version();
    if (version.empty()) return {};
    return concat("dense ", matrix_->array().info().path, " ", own.row_domain_end, " x ",
                  own.column_domain_end, "\n", version);
  }
  MatrixSourcePtr in_order() const override {
    const auto forward = chunked::forward_arrays({matrix_->shared_array()});
    if (forward.empty()) return nullptr;
    const auto& shape = forward[0]->info().shape;
    return make_dense_source(DenseMatrix::load(forward[0], shape[0], shape[1]));
  }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return readers_.get(columns,
                        [&] { return std::make_shared<const DenseReader>(matrix_, columns); });
  }

 private:
  const std::shared_ptr<const DenseMatrix> matrix_;
  RecentReaders<DenseReader> readers_;
};

}  // namespace

MatrixSourcePtr make_dense_source(std::shared_ptr<const DenseMatrix> matrix) {
  return std::make_shared<const DenseSource>(std::move(matrix));
}

DenseReader::DenseReader(std::shared_ptr<const DenseMatrix> matrix,
                         std::span<const int64_t> columns)
    : matrix_(std::move(matrix)),
      columns_(columns, matrix_->info().column_domain_end),
      layout_(kernel::make_row_layout(columns.size(), matrix_->info().value_type)) {
  int64_t last = -1;
  for (const int64_t column : columns_.ids()) {
    const int64_t at = column / matrix_->chunk_columns();
    touched_columns_ += at != last;
    last = at;
  }
}

std::unique_ptr<UnitDecode> DenseReader::start(uint32_t unit, std::vector<int64_t> rows,
                                               std::unique_ptr<UnitDecode> recycled) const {
  check_unit_rows(matrix_->units(), unit, rows);
  auto decode = recycle_or_make<DenseDecode>(std::move(recycled), shared_from_this());
  decode->start(std::move(rows));
  return decode;
}

uint64_t DenseReader::in_flight_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = matrix_->units().at(unit);
  const auto rows = static_cast<uint64_t>(place.row_end - place.row_begin);
  return place.stored_bytes + rows * columns_.size() * layout_.value_bytes +
         matrix_->array().info().decoded_bytes();
}

uint64_t DenseReader::decode_bytes(uint32_t /*unit*/, std::span<const int64_t> rows) const {
  if (rows.empty()) return 0;
  const uint64_t values = rows.size() * columns_.size() * layout_.value_bytes;
  return bytes_of(RowSelection::range(rows.front(), rows.back() + 1), rows.front(),
                  rows.back() + 1) +
         2 * values + matrix_->array().info().decoded_bytes();
}

double DenseReader::packed_bytes_per_cell() const {
  return packed_bytes_.get([&] { return sample_packed_bytes(); });
}

// Packed bytes of a few rows of a few units, divided by the stored cells of those rows.
double DenseReader::sample_packed_bytes() const {
  constexpr size_t kUnits = 4;
  constexpr int64_t kRows = 64;
  const auto& units = matrix_->units();
  const size_t step = std::max<size_t>(1, units.size() / kUnits);
  double packed = 0, cells = 0;
  std::unique_ptr<UnitDecode> decode;
  for (size_t unit = 0; unit < units.size(); unit += step) {
    auto rows =
        rows_to_sample(*this, static_cast<uint32_t>(unit), units[unit], kRows, SampledPart::kBegin);
    if (rows.empty()) continue;
    cells +=
        static_cast<double>(rows.size()) * static_cast<double>(matrix_->info().column_domain_end);
    decode = start(static_cast<uint32_t>(unit), std::move(rows), std::move(decode));
    decode->fetch();
    for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
      for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
    }
    for (uint32_t row = 0; row < decode->row_count(); ++row) {
      packed += static_cast<double>(decode->packed_bytes(row) - sizeof(kernel::PackedRowHeader));
    }
  }
  if (cells != 0) return packed / cells;
  // There are no rows, or they are too large: at most, no value is 0 and each is wide.
  return layout_.index_bytes + 1.0 + layout_.value_bytes;
}

uint64_t DenseReader::bytes_needed(const RowSelection& rows) const {
  return bytes_of(rows, 0, matrix_->info().row_domain_end);
}

uint64_t DenseReader::visit_bytes(uint32_t unit, const RowSelection& rows) const {
  const plan::FetchUnit& place = matrix_->units().at(unit);
  return bytes_of(rows, place.row_begin, place.row_end);
}

uint64_t DenseReader::bytes_of(const RowSelection& rows, int64_t row_begin, int64_t row_end) const {
  int64_t bands = 0;
  const int64_t step = matrix_->chunk_rows();
  for (int64_t begin = row_begin; begin < row_end; begin += step) {
    bands += rows.intersects(begin, std::min(row_end, begin + step));
  }
  return static_cast<uint64_t>(static_cast<double>(bands * touched_columns_) *
                               matrix_->chunk_bytes());
}

}  // namespace penstock::format
