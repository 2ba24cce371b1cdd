#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "base/concat.h"
#include "format/memory/memory_matrix.h"
#include "format/memory/memory_rows.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

/// Units are for epochs that do not read row by row.
constexpr int64_t kUnitRows = 512;
constexpr size_t kTaskRows = 64;
constexpr int64_t kSampleRows = 256;

struct MemoryReaderState {
  std::string path;  ///< for messages; may be empty
  std::shared_ptr<const MemoryMatrix> matrix;
  std::vector<plan::FetchUnit> units;
};

/// Writes records of rows, packed or in place.
class RowPacker {
 public:
  RowPacker(const MemoryRows& rows, const kernel::PackedRowLayout& layout)
      : rows_(rows), layout_(layout) {}

  /// Appends the most entries of each row to `most`. Returns the most bytes of all records.
  size_t most_bytes(std::span<const int64_t> ids, std::vector<uint32_t>& most) const {
    size_t bytes = 0;
    for (const int64_t row : ids) {
      const auto entries = static_cast<uint32_t>(rows_.most_entries(row));
      most.push_back(entries);
      // A record of codes is never larger than one of values (kernel::choose_wide_count). One in
      // place is larger only by an address.
      bytes += layout_.record_bytes(entries, kernel::kRawRow) + sizeof(const std::byte*) + entries;
    }
    return bytes;
  }

  /// Returns the end of the record, which has at most `most` entries.
  std::byte* pack(int64_t row, uint32_t most, std::byte* out, RowEntries& entries) const {
    rows_.read(row, entries);
    const auto nnz = static_cast<uint32_t>(entries.indices.size());
    if (nnz > most) throw InvalidArgument(concat("row ", row, " was changed while it was read"));
    const uint32_t wide = kernel::choose_wide_count(layout_, entries.values, nnz);
    kernel::pack_row(layout_, entries.indices, entries.values, wide, out);
    return out + layout_.record_bytes(nnz, wide);
  }

  /// The same, with the values where they are if that can be.
  std::byte* place(int64_t row, uint32_t most, std::byte* out, RowEntries& entries) const {
    const size_t bytes = rows_.write_in_place(row, most, layout_, out);
    return bytes != 0 ? out + bytes : pack(row, most, out, entries);
  }

 private:
  const MemoryRows& rows_;
  const kernel::PackedRowLayout& layout_;
};

class MemoryRowReader final : public RowReader {
 public:
  MemoryRowReader(std::shared_ptr<const MemoryReaderState> state,
                  std::shared_ptr<const MemoryRows> rows, const kernel::PackedRowLayout& layout,
                  double packed_bytes)
      : state_(std::move(state)),
        rows_(std::move(rows)),
        layout_(layout),
        packed_bytes_(packed_bytes) {}

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }

  void read(std::span<const int64_t> rows, RowBuffer& out) const override { read(rows, true, out); }

  void read(std::span<const int64_t> rows, bool in_place, RowBuffer& out) const {
    if (state_->path.empty()) return read_rows(rows, in_place, out);
    with_place([&] { read_rows(rows, in_place, out); }, [&] { return state_->path; });
  }

  double buffer_bytes_per_row() const override {
    const MatrixInfo& info = state_->matrix->info();
    const auto rows = static_cast<double>(std::max<int64_t>(1, info.row_domain_end));
    return static_cast<double>(info.stored_cells) / rows *
               (layout_.value_bytes + layout_.index_bytes + 1.0) +
           2 * sizeof(kernel::PackedRowHeader);
  }
  double packed_bytes_per_row() const override { return packed_bytes_; }
  bool in_memory() const override { return true; }
  uint64_t bytes_needed(std::span<const int64_t> /*rows*/) const override { return 0; }

 private:
  void read_rows(std::span<const int64_t> rows, bool in_place, RowBuffer& out) const {
    out.bytes_read = out.cached_bytes = out.read_count = 0;
    out.records.clear();
    out.nnz.clear();
    for (const int64_t row : rows) {
      if (row < 0 || row >= state_->matrix->info().row_domain_end) {
        throw InvalidArgument(
            concat("row ", row, " is outside 0 … ", state_->matrix->info().row_domain_end - 1));
      }
    }
    if (out.scratch == nullptr) out.scratch = std::make_unique<Scratch>();
    auto& [entries, most] = static_cast<Scratch&>(*out.scratch).memory;
    most.clear();
    const RowPacker packer(*rows_, layout_);
    out.bytes.resize_discard(packer.most_bytes(rows, most) + sizeof(kernel::PackedRowHeader));
    std::byte* next = out.bytes.data();
    for (size_t i = 0; i < rows.size(); ++i) {
      out.records.push_back(next);
      next = in_place ? packer.place(rows[i], most[i], next, entries)
                      : packer.pack(rows[i], most[i], next, entries);
      out.nnz.push_back(kernel::header_of(out.records.back()).nnz);
    }
  }

  struct Memory {
    RowEntries entries;
    std::vector<uint32_t> most;
  };
  struct Scratch final : RowBuffer::Scratch {
    Memory memory;
    size_t memory_bytes() const noexcept override {
      const RowEntries& entries = memory.entries;
      return entries.index_memory.capacity() * 4 + entries.order.capacity() * 4 +
             entries.value_memory.capacity() + entries.sorted_values.capacity() +
             memory.most.capacity() * 4;
    }
  };

  std::shared_ptr<const MemoryReaderState> state_;
  std::shared_ptr<const MemoryRows> rows_;
  kernel::PackedRowLayout layout_;
  double packed_bytes_;
};

/// A unit, packed row by row in its only phase.
class MemoryDecode final : public UnitDecode {
 public:
  MemoryDecode(std::shared_ptr<const MemoryRowReader> rows, std::vector<int64_t> ids)
      : reader_(std::move(rows)), ids_(std::move(ids)), buffers_(task_count(0)) {}

  void fetch() override {}
  size_t phase_count() const override { return 1; }
  size_t task_count(size_t /*phase*/) const override {
    return (ids_.size() + kTaskRows - 1) / kTaskRows;
  }
  void run(size_t /*phase*/, size_t task) override {
    const auto all = std::span<const int64_t>(ids_);
    reader_->read(all.subspan(task * kTaskRows, std::min(kTaskRows, all.size() - task * kTaskRows)),
                  false, buffers_[task]);
  }
  uint32_t row_count() const override { return static_cast<uint32_t>(ids_.size()); }
  uint32_t nnz(uint32_t row) const override { return buffer(row).nnz[row % kTaskRows]; }
  size_t packed_bytes(uint32_t row) const override {
    return reader_->row_layout().record_bytes(nnz(row), wide_count(row));
  }
  uint32_t wide_count(uint32_t row) const override {
    return kernel::PackedRowView::of(record(row), reader_->row_layout()).wide_count;
  }
  void pack(uint32_t row, std::byte* destination) const override {
    std::memcpy(destination, record(row), packed_bytes(row));
  }
  uint64_t bytes_read() const override { return 0; }

 private:
  const RowBuffer& buffer(uint32_t row) const { return buffers_[row / kTaskRows]; }
  const std::byte* record(uint32_t row) const { return buffer(row).records[row % kTaskRows]; }

  std::shared_ptr<const MemoryRowReader> reader_;
  std::vector<int64_t> ids_;
  std::vector<RowBuffer> buffers_;
};

class MemoryReader final : public MatrixReader {
 public:
  MemoryReader(std::shared_ptr<const MemoryReaderState> state, std::span<const int64_t> columns)
      : state_(std::move(state)),
        layout_(kernel::make_row_layout(columns.size(), state_->matrix->info().value_type)),
        rows_(state_->matrix->rows(columns)) {
    if (state_->path.empty()) {
      take_sample();
    } else {
      with_place([&] { take_sample(); }, [&] { return state_->path; });
    }
    row_reader_ = std::make_shared<const MemoryRowReader>(
        state_, rows_, layout_,
        packed_bytes_per_cell_ * static_cast<double>(state_->matrix->info().stored_cells) /
            static_cast<double>(std::max<int64_t>(1, state_->matrix->info().row_domain_end)));
  }

  const kernel::PackedRowLayout& row_layout() const override { return layout_; }
  std::unique_ptr<UnitDecode> start(uint32_t unit, std::vector<int64_t> rows,
                                    std::unique_ptr<UnitDecode> /*recycled*/) const override {
    if (unit >= state_->units.size()) throw InvalidArgument(concat("no fetch unit ", unit));
    return std::make_unique<MemoryDecode>(row_reader_, std::move(rows));
  }
  uint64_t in_flight_bytes(uint32_t unit) const override {
    return state_->units.at(unit).cell_bound *
           (layout_.value_bytes + uint64_t{layout_.index_bytes} + 1);
  }
  uint64_t decode_bytes(uint32_t /*unit*/, std::span<const int64_t> rows) const override {
    if (rows.empty()) return 0;
    return state_->matrix->entries(rows.front(), rows.back() + 1) *
           (layout_.value_bytes + uint64_t{layout_.index_bytes} + 1);
  }
  double packed_bytes_per_cell() const override { return packed_bytes_per_cell_; }
  uint64_t bytes_needed(const RowSelection& /*rows*/) const override { return 0; }
  uint64_t visit_bytes(uint32_t /*unit*/, const RowSelection& /*rows*/) const override { return 0; }
  RowReaderPtr row_reader(const RowSelection& /*rows*/) const override { return row_reader_; }

 private:
  void take_sample() {
    const int64_t rows = state_->matrix->info().row_domain_end;
    const int64_t step = std::max<int64_t>(1, rows / kSampleRows);
    const RowPacker packer(*rows_, layout_);
    RowEntries entries;
    std::vector<uint32_t> most;
    Buffer record;
    double packed = 0, stored = 0;
    for (int64_t row = 0; row < rows; row += step) {
      most.clear();
      record.resize_discard(packer.most_bytes({&row, 1}, most) + sizeof(kernel::PackedRowHeader));
      const std::byte* const end = packer.pack(row, most[0], record.data(), entries);
      packed += static_cast<double>(end - record.data()) - sizeof(kernel::PackedRowHeader);
      stored += static_cast<double>(state_->matrix->entries(row, row + 1));
    }
    packed_bytes_per_cell_ = stored == 0 ? layout_.index_bytes + 1.0 : packed / stored;
  }

  std::shared_ptr<const MemoryReaderState> state_;
  kernel::PackedRowLayout layout_;
  std::shared_ptr<const MemoryRows> rows_;
  double packed_bytes_per_cell_ = 3;
  std::shared_ptr<const MemoryRowReader> row_reader_;
};

class MemorySource final : public MatrixSource {
 public:
  MemorySource(std::shared_ptr<const MemoryMatrix> matrix, std::string path) {
    auto state = std::make_shared<MemoryReaderState>();
    state->path = std::move(path);
    kernel::make_row_layout(1, matrix->info().value_type);  // throws for other types
    const int64_t rows = matrix->info().row_domain_end;
    for (int64_t begin = 0; begin < rows; begin += kUnitRows) {
      const int64_t end = std::min(rows, begin + kUnitRows);
      state->units.push_back({begin, end, matrix->entries(begin, end), 0, 1});
    }
    state->matrix = std::move(matrix);
    state_ = std::move(state);
  }

  const MatrixInfo& info() const override { return state_->matrix->info(); }
  bool in_memory() const override { return true; }
  std::span<const plan::FetchUnit> units() const override { return state_->units; }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return std::make_shared<const MemoryReader>(state_, columns);
  }

 private:
  std::shared_ptr<const MemoryReaderState> state_;
};

void check(const MemoryView& view, uint64_t rows, uint64_t columns) {
  const auto within = [](const std::vector<int64_t>& ids, uint64_t end) {
    return std::all_of(ids.begin(), ids.end(),
                       [end](int64_t id) { return id >= 0 && static_cast<uint64_t>(id) < end; });
  };
  if (!within(view.rows, rows) || !within(view.columns, columns)) {
    throw InvalidArgument(
        concat("a view's rows and columns must be those of its matrix, of ", rows, " x ", columns));
  }
}

/// A stored entry of a CSR matrix goes into one column.
void expect_each_once(std::vector<int64_t> columns) {
  std::sort(columns.begin(), columns.end());
  if (std::adjacent_find(columns.begin(), columns.end()) != columns.end()) {
    throw InvalidArgument("a view of a CSR matrix shows a column twice");
  }
}

std::shared_ptr<const MemoryMatrix> make_matrix(CsrInMemory&& matrix) {
  return make_csr_matrix(std::move(matrix));
}
std::shared_ptr<const MemoryMatrix> make_matrix(DenseInMemory&& matrix) {
  return make_dense_matrix(std::move(matrix));
}

}  // namespace

MatrixSourcePtr make_memory_source(MatrixInMemory matrix, std::string path) {
  return std::visit(
      [&](auto& stored) -> MatrixSourcePtr {
        check(stored.view, stored.rows, stored.columns);
        if constexpr (std::is_same_v<std::decay_t<decltype(stored)>, CsrInMemory>) {
          expect_each_once(stored.view.columns);
        }
        return std::make_shared<const MemorySource>(make_matrix(std::move(stored)),
                                                    std::move(path));
      },
      matrix);
}

}  // namespace penstock::format
