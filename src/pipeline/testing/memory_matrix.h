#pragma once

#include <penstock/error.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "format/matrix_source.h"
#include "kernel/pack_row.h"

// A matrix in memory that behaves like a stored one, for tests of the pipeline. It has units of
// uneven size and several decode phases, whose barriers it checks. On request it throws errors and
// delays.

namespace penstock::pipeline::testing {

/// Where an error is thrown, once, by the count of calls in the whole run.
enum class Fault { kNone, kStart, kFetch, kTask, kPack, kNnz, kRead };

struct MemoryMatrixOptions {
  int64_t rows = 1000;
  int64_t columns = 100;
  uint32_t max_nnz = 20;
  double rare_values = 0.02;  ///< share of values that are not small counts
  int64_t max_unit_rows = 64;
  double estimate_factor = 1.0;  ///< estimated size over the true size
  uint32_t stored_every = 1;     ///< one row in so many has cells
  uint32_t giant_row_every = 0;  ///< one row in so many is full
  uint64_t unit_bytes = 1000;    ///< in_flight_bytes of each unit
  uint64_t fetched_bytes = 0;    ///< of each unit of a remote store; 0: not remote
  Fault fault = Fault::kNone;
  int fault_after = 0;  ///< number of calls that succeed before
  uint32_t fetch_microseconds = 0;
  uint32_t task_microseconds = 0;
  bool addresses_rows = false;  ///< gives a row_reader()
  uint64_t request_bytes = 0;   ///< of the row_reader()
  uint64_t seed = 1;
};

struct MemoryRow {
  std::vector<int64_t> columns;  ///< ascending, some repeated
  std::vector<float> values;
};

class MemoryMatrix : public format::MatrixSource,
                     public std::enable_shared_from_this<MemoryMatrix> {
 public:
  explicit MemoryMatrix(const MemoryMatrixOptions& options) : options_(options) {
    std::mt19937_64 random(options.seed);
    info_.row_domain_end = options.rows;
    info_.column_domain_end = options.columns;
    info_.value_type = DataType::kFloat32;
    for (int64_t i = 0; i < options.rows; ++i) rows_.push_back(random_row(random, i));
    for (int64_t begin = 0; begin < options.rows;) {
      const auto size = std::min<int64_t>(
          options.rows - begin,
          1 + static_cast<int64_t>(random() % static_cast<uint64_t>(options.max_unit_rows)));
      add_unit(begin, begin + size);
      begin += size;
    }
    faults_left_ = options.fault_after;
  }

  const format::MatrixInfo& info() const override { return info_; }
  std::span<const plan::FetchUnit> units() const override { return units_; }
  std::shared_ptr<const format::MatrixReader> reader(
      std::span<const int64_t> columns) const override;

  const MemoryRow& row(int64_t index) const { return rows_[static_cast<size_t>(index)]; }
  const MemoryMatrixOptions& options() const { return options_; }

  /// Throws at the call that the options name.
  void maybe_fail(Fault here) const {
    if (options_.fault != here) return;
    if (faults_left_.fetch_sub(1) != 0) return;
    fault_fired_ = true;
    throw IoError("injected fault");
  }

  /// Whether maybe_fail() has thrown.
  bool fault_fired() const noexcept { return fault_fired_; }

 private:
  MemoryRow random_row(std::mt19937_64& random, int64_t index) const {
    MemoryRow row;
    const bool giant = options_.giant_row_every != 0 && index % options_.giant_row_every == 0;
    uint64_t nnz = giant ? static_cast<uint64_t>(options_.columns)
                         : random() % (uint64_t{options_.max_nnz} + 1);
    if (index % options_.stored_every != 0) nnz = 0;
    for (uint64_t i = 0; i < nnz; ++i) {
      row.columns.push_back(
          giant ? static_cast<int64_t>(i)
                : static_cast<int64_t>(random() % static_cast<uint64_t>(options_.columns)));
      const bool rare = std::uniform_real_distribution<>()(random) < options_.rare_values;
      row.values.push_back(rare ? static_cast<float>(random() % 100000) / 8
                                : static_cast<float>(1 + random() % 200));
    }
    std::sort(row.columns.begin(), row.columns.end());
    return row;
  }

  void add_unit(int64_t begin, int64_t end) {
    plan::FetchUnit unit;
    unit.row_begin = begin;
    unit.row_end = end;
    uint64_t cells = 0;
    for (int64_t i = begin; i < end; ++i) cells += rows_[static_cast<size_t>(i)].columns.size();
    unit.cell_bound = static_cast<uint64_t>(static_cast<double>(cells) * options_.estimate_factor);
    unit.stored_bytes = cells * 2;
    unit.tile_count = 3;
    units_.push_back(unit);
  }

  MemoryMatrixOptions options_;
  format::MatrixInfo info_;
  std::vector<MemoryRow> rows_;
  std::vector<plan::FetchUnit> units_;
  mutable std::atomic<int> faults_left_{0};
  mutable std::atomic<bool> fault_fired_{false};
};

class MemoryReader;

/// The cells of a row in the reader's columns.
struct ChosenCells {
  std::vector<uint32_t> columns;
  std::vector<float> values;
  uint32_t wide = 0;

  ChosenCells() = default;
  ChosenCells(const MemoryReader& reader, int64_t joinid);
  size_t packed_bytes(const kernel::PackedRowLayout& layout) const {
    return layout.record_bytes(static_cast<uint32_t>(columns.size()), wide);
  }
  void pack(const kernel::PackedRowLayout& layout, std::byte* destination) const {
    kernel::pack_row(layout, std::span<const uint32_t>(columns),
                     reinterpret_cast<const std::byte*>(values.data()), wide, destination);
  }
};

class MemoryDecode : public format::UnitDecode {
 public:
  const MemoryReader* reader() const { return reader_.get(); }
  MemoryDecode(std::shared_ptr<const MemoryReader> reader, uint32_t unit, std::vector<int64_t> rows)
      : reader_(std::move(reader)), unit_(unit), rows_(std::move(rows)), staged_(rows_.size()) {}

  void fetch() override;
  // Phases: two tasks, no task, one task for each seven rows.
  size_t phase_count() const override { return 3; }
  size_t task_count(size_t phase) const override {
    return phase == 0 ? 2 : phase == 1 ? 0 : (rows_.size() + 6) / 7;
  }
  void run(size_t phase, size_t task) override;
  uint32_t row_count() const override { return static_cast<uint32_t>(rows_.size()); }
  uint32_t nnz(uint32_t row) const override;
  size_t packed_bytes(uint32_t row) const override;
  uint32_t wide_count(uint32_t row) const override { return staged_[row].wide; }
  void pack(uint32_t row, std::byte* destination) const override;
  uint64_t bytes_read() const override;

 private:
  void require(bool condition, const char* what) const {
    if (!condition) throw Internal(std::string("test source: ") + what);
  }

  std::shared_ptr<const MemoryReader> reader_;
  uint32_t unit_;
  std::vector<int64_t> rows_;
  std::vector<ChosenCells> staged_;
  std::atomic<bool> fetched_{false};
  std::atomic<size_t> first_phase_done_{0};
  std::atomic<size_t> last_phase_done_{0};
};

class MemoryReader : public format::MatrixReader,
                     public std::enable_shared_from_this<MemoryReader> {
 public:
  MemoryReader(std::shared_ptr<const MemoryMatrix> matrix, std::span<const int64_t> columns)
      : matrix_(std::move(matrix)),
        columns_(columns.begin(), columns.end()),
        layout_(kernel::make_row_layout(columns.size(), DataType::kFloat32)) {
    for (size_t i = 1; i < columns_.size(); ++i) {
      if (columns_[i] <= columns_[i - 1]) throw InvalidArgument("columns must ascend");
    }
  }

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  std::unique_ptr<format::UnitDecode> start(
      uint32_t unit, std::vector<int64_t> rows,
      std::unique_ptr<format::UnitDecode> recycled) const override {
    if (recycled != nullptr && dynamic_cast<const MemoryDecode*>(recycled.get()) == nullptr) {
      throw Internal("test source: what is recycled is of another kind");
    }
    recycled.reset();
    matrix_->maybe_fail(Fault::kStart);
    const auto& fetch_unit = matrix_->units()[unit];
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < fetch_unit.row_begin || rows[i] >= fetch_unit.row_end ||
          (i > 0 && rows[i] <= rows[i - 1])) {
        throw Internal("test source: rows not of the unit, or not ascending");
      }
    }
    return std::make_unique<MemoryDecode>(shared_from_this(), unit, std::move(rows));
  }
  uint64_t in_flight_bytes(uint32_t unit) const override {
    if (unit >= matrix_->units().size()) throw Internal("test source: no such unit");
    return matrix_->options().unit_bytes;
  }
  uint64_t fetched_bytes(uint32_t unit) const override {
    return remote() ? matrix_->options().fetched_bytes : in_flight_bytes(unit);
  }
  bool remote() const override { return matrix_->options().fetched_bytes != 0; }
  double packed_bytes_per_cell() const override {
    const double share = static_cast<double>(columns_.size()) /
                         static_cast<double>(std::max<int64_t>(1, matrix_->options().columns));
    return (3.0 + 4 * matrix_->options().rare_values) * share;
  }
  uint64_t bytes_needed(const RowSelection& rows) const override {
    uint64_t bytes = 0;
    if (matrix_->options().addresses_rows) {
      for (const int64_t row : rows.to_vector()) bytes += 2 * matrix_->row(row).columns.size();
      return bytes;
    }
    for (const auto& unit : matrix_->units()) {
      if (rows.rank(unit.row_end) > rows.rank(unit.row_begin)) bytes += unit.stored_bytes;
    }
    return bytes;
  }
  uint64_t visit_bytes(uint32_t unit, const RowSelection& rows) const override {
    const auto& place = matrix_->units()[unit];
    if (matrix_->options().addresses_rows) {
      return bytes_needed(rows & RowSelection::range(place.row_begin, place.row_end));
    }
    return rows.intersects(place.row_begin, place.row_end) ? place.stored_bytes : 0;
  }

  format::RowReaderPtr row_reader(const RowSelection& rows) const override;

  const MemoryMatrix& matrix() const { return *matrix_; }
  const std::vector<int64_t>& columns() const { return columns_; }

 private:
  std::shared_ptr<const MemoryMatrix> matrix_;
  std::vector<int64_t> columns_;
  kernel::PackedRowLayout layout_;
};

inline std::shared_ptr<const format::MatrixReader> MemoryMatrix::reader(
    std::span<const int64_t> columns) const {
  return std::make_shared<MemoryReader>(shared_from_this(), columns);
}

/// Sleeps or yields; both vary the order of threads.
inline void lose_time(uint32_t microseconds) {
  if (microseconds != 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

inline void MemoryDecode::fetch() {
  lose_time(reader_->matrix().options().fetch_microseconds);
  reader_->matrix().maybe_fail(Fault::kFetch);
  require(!fetched_.exchange(true), "fetched twice");
}

inline ChosenCells::ChosenCells(const MemoryReader& reader, int64_t joinid) {
  const MemoryRow& row = reader.matrix().row(joinid);
  const auto& chosen = reader.columns();
  for (size_t k = 0; k < row.columns.size(); ++k) {
    const auto at = std::lower_bound(chosen.begin(), chosen.end(), row.columns[k]);
    if (at == chosen.end() || *at != row.columns[k]) continue;
    columns.push_back(static_cast<uint32_t>(at - chosen.begin()));
    values.push_back(row.values[k]);
  }
  wide = kernel::choose_wide_count(reader.row_layout(),
                                   reinterpret_cast<const std::byte*>(values.data()),
                                   static_cast<uint32_t>(columns.size()));
}

/// Rows one by one; counts the rows announced by prefetch().
class MemoryRowReader : public format::RowReader {
 public:
  explicit MemoryRowReader(std::shared_ptr<const MemoryReader> reader)
      : reader_(std::move(reader)) {}

  const kernel::PackedRowLayout& row_layout() const override { return reader_->row_layout(); }
  void read(std::span<const int64_t> rows, format::RowBuffer& out) const override {
    lose_time(reader_->matrix().options().fetch_microseconds);
    reader_->matrix().maybe_fail(Fault::kRead);
    std::vector<ChosenCells> cells;
    size_t bytes = 0;
    for (const int64_t row : rows) {
      if (row < 0 || row >= reader_->matrix().options().rows) throw InvalidArgument("no such row");
      cells.emplace_back(*reader_, row);
      bytes += cells.back().packed_bytes(row_layout());
    }
    out.bytes.resize_discard(bytes);
    out.records.clear();
    out.nnz.clear();
    std::byte* at = out.bytes.data();
    for (const ChosenCells& each : cells) {
      each.pack(row_layout(), at);
      out.records.push_back(at);
      out.nnz.push_back(static_cast<uint32_t>(each.columns.size()));
      at += each.packed_bytes(row_layout());
    }
    out.bytes_read = bytes_needed(rows);
  }
  void prefetch(std::span<const int64_t> rows) const noexcept override {
    announced_ += rows.size();
  }
  double buffer_bytes_per_row() const override {
    return sizeof(kernel::PackedRowHeader) + 8 +
           reader_->matrix().options().max_nnz * reader_->packed_bytes_per_cell();
  }
  uint64_t bytes_needed(std::span<const int64_t> rows) const override {
    uint64_t bytes = 0;
    for (const int64_t row : rows) bytes += 2 * reader_->matrix().row(row).columns.size();
    return bytes;
  }
  uint64_t request_bytes() const override { return reader_->matrix().options().request_bytes; }
  uint64_t announced() const noexcept { return announced_; }

 private:
  std::shared_ptr<const MemoryReader> reader_;
  mutable std::atomic<uint64_t> announced_{0};
};

inline format::RowReaderPtr MemoryReader::row_reader(const RowSelection&) const {
  if (!matrix_->options().addresses_rows) return nullptr;
  return std::make_shared<MemoryRowReader>(shared_from_this());
}

inline void MemoryDecode::run(size_t phase, size_t task) {
  lose_time(reader_->matrix().options().task_microseconds);
  reader_->matrix().maybe_fail(Fault::kTask);
  require(fetched_, "decoded before it was fetched");
  if (phase == 0) {
    ++first_phase_done_;
    return;
  }
  require(first_phase_done_ == 2, "a phase began before the one before ended");
  for (size_t i = task * 7; i < std::min(rows_.size(), task * 7 + 7); ++i) {
    staged_[i] = ChosenCells(*reader_, rows_[i]);
  }
  ++last_phase_done_;
}

inline uint32_t MemoryDecode::nnz(uint32_t row) const {
  reader_->matrix().maybe_fail(Fault::kNnz);
  require(last_phase_done_ == task_count(2), "read before it was decoded");
  return static_cast<uint32_t>(staged_.at(row).columns.size());
}

inline size_t MemoryDecode::packed_bytes(uint32_t row) const {
  return staged_.at(row).packed_bytes(reader_->row_layout());
}

inline void MemoryDecode::pack(uint32_t row, std::byte* destination) const {
  reader_->matrix().maybe_fail(Fault::kPack);
  staged_.at(row).pack(reader_->row_layout(), destination);
}

inline uint64_t MemoryDecode::bytes_read() const {
  return reader_->matrix().units()[unit_].stored_bytes;
}

}  // namespace penstock::pipeline::testing
