#include "format/value_sample.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "base/threads/parallel.h"
#include "base/types/visit_type.h"
#include "format/sampled_rows.h"
#include "kernel/unpack_row.h"

namespace penstock::format {
namespace {

constexpr size_t kUnits = 4;
constexpr int64_t kRows = 16;
/// Domains of older SOMA releases have no end.
constexpr int64_t kMostColumns = int64_t{1} << 20;

/// Values of consecutive rows in the middle of a unit, as float64. None if the rows are too large.
std::vector<double> values_of(const MatrixReader& reader, uint32_t unit,
                              const plan::FetchUnit& place) {
  auto rows = rows_to_sample(reader, unit, place, kRows, SampledPart::kMiddle);
  if (rows.empty()) return {};
  const auto decode = reader.start(unit, std::move(rows), nullptr);
  decode->fetch();
  for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
    for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
  }
  const kernel::RowUnpacker unpacker(reader.row_layout(), DataType::kFloat64);
  std::vector<double> values;
  for (uint32_t row = 0; row < decode->row_count(); ++row) {
    std::vector<std::byte> record(decode->packed_bytes(row));
    decode->pack(row, record.data());
    std::vector<int32_t> indices(decode->nnz(row));
    const size_t at = values.size();
    values.resize(at + indices.size());
    unpacker.append_csr(record.data(), indices.data(),
                        reinterpret_cast<std::byte*>(values.data() + at));
  }
  return values;
}

}  // namespace

bool has_fractions(const MatrixSource& source) {
  const DataType type = source.info().value_type;
  if (type != DataType::kFloat32 && type != DataType::kFloat64) return false;
  std::vector<int64_t> columns(
      static_cast<size_t>(std::min(source.info().column_domain_end, kMostColumns)));
  std::iota(columns.begin(), columns.end(), int64_t{0});
  const auto reader = source.reader(columns);
  const auto units = source.units();
  const size_t step = std::max<size_t>(1, units.size() / kUnits);
  std::vector<size_t> sampled;
  for (size_t unit = step / 2; unit < units.size(); unit += step) sampled.push_back(unit);
  std::atomic<bool> found = false;
  // A remote store answers for all of them at the same time.
  parallel_for(
      sampled.size(), reader->remote() ? static_cast<unsigned>(sampled.size()) : 1, [&](size_t i) {
        if (found) return;
        const auto unit = static_cast<uint32_t>(sampled[i]);
        const auto values = values_of(*reader, unit, units[unit]);
        found = found || std::any_of(values.begin(), values.end(),
                                     [](double value) { return std::trunc(value) != value; });
      });
  return found;
}

}  // namespace penstock::format
