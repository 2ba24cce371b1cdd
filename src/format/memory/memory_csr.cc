#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/concat.h"
#include "base/types/visit_type.h"
#include "format/cells/cell_kernels.h"
#include "format/cells/column_table.h"
#include "format/cells/stored_ids.h"
#include "format/memory/memory_rows.h"

namespace penstock::format {
namespace {

/// indptr of any integer type.
class Offsets {
 public:
  Offsets(const MemoryArray& indptr, uint64_t elements) : indptr_(indptr) {
    wide_ = size_of(indptr.type) == 8;
    if (!wide_ && size_of(indptr.type) != 4) {
      throw Unsupported("indptr must be int32 or int64, not " + std::string(name_of(indptr.type)));
    }
    int64_t last = 0;
    for (uint64_t i = 0; i < indptr.count; ++i) {
      const int64_t offset = at(i);
      if (offset < last || (i == 0 && offset != 0)) {
        throw InvalidArgument(concat("indptr must begin with 0 and not fall, got ", offset,
                                     " after ", last, " at row ", i));
      }
      last = offset;
    }
    if (static_cast<uint64_t>(last) > elements) {
      throw InvalidArgument(
          concat("indptr ends at ", last, ", but there are ", elements, " non-zeros"));
    }
  }

  int64_t at(uint64_t row) const noexcept {
    if (wide_) {
      int64_t offset;
      std::memcpy(&offset, indptr_.data + row * 8, 8);
      return offset;
    }
    int32_t offset;
    std::memcpy(&offset, indptr_.data + row * 4, 4);
    return offset;
  }

 private:
  MemoryArray indptr_;
  bool wide_ = true;
};

/// Stored entries [begin, begin + count) of a row.
struct EntryRange {
  size_t begin = 0, count = 0;
};

class CsrMatrix final : public MemoryMatrix, public std::enable_shared_from_this<CsrMatrix> {
 public:
  CsrMatrix(CsrInMemory matrix)
      : matrix_(std::move(matrix)),
        offsets_(matrix_.indptr, std::min(matrix_.data.count, matrix_.indices.count)) {
    if (matrix_.indptr.count != matrix_.rows + 1) {
      throw InvalidArgument(concat("indptr must have one entry more than there are rows, got ",
                                   matrix_.indptr.count, " for ", matrix_.rows, " rows"));
    }
    if (!is_integer(matrix_.indices.type)) {
      throw Unsupported("indices must be integers, not " +
                        std::string(name_of(matrix_.indices.type)));
    }
    value_bytes_ = size_of(matrix_.data.type);
    info_.row_domain_end =
        static_cast<int64_t>(matrix_.view.all_rows ? matrix_.rows : matrix_.view.rows.size());
    info_.column_domain_end = static_cast<int64_t>(
        matrix_.view.all_columns ? matrix_.columns : matrix_.view.columns.size());
    info_.value_type = matrix_.data.type;
    info_.stored_cells = entries(0, info_.row_domain_end);
    info_.stored_bytes = info_.stored_cells * (value_bytes_ + size_of(matrix_.indices.type));
    info_.fragment_count = 1;
    info_.tile_count = 1;
    info_.layout = "csr in memory";
  }

  const MatrixInfo& info() const override { return info_; }

  uint64_t entries(int64_t begin, int64_t end) const override {
    if (matrix_.view.all_rows) {
      return static_cast<uint64_t>(offsets_.at(static_cast<uint64_t>(end)) -
                                   offsets_.at(static_cast<uint64_t>(begin)));
    }
    uint64_t count = 0;
    for (int64_t row = begin; row < end; ++row) count += range(row).count;
    return count;
  }

  std::unique_ptr<const MemoryRows> rows(std::span<const int64_t> columns) const override;

  uint64_t stored_row(int64_t row) const noexcept {
    return static_cast<uint64_t>(
        matrix_.view.all_rows ? row : matrix_.view.rows[static_cast<size_t>(row)]);
  }
  /// The caller's arrays can change after they were checked, so each row is checked again.
  EntryRange range(int64_t row) const {
    const uint64_t stored = stored_row(row);
    const int64_t begin = offsets_.at(stored), end = offsets_.at(stored + 1);
    const auto last = static_cast<int64_t>(std::min(matrix_.data.count, matrix_.indices.count));
    if (begin < 0 || end < begin || end > last) {
      throw InvalidArgument(concat("indptr was changed: row ", row, " has entries ", begin, " … ",
                                   end, " of ", last));
    }
    return {static_cast<size_t>(begin), static_cast<size_t>(end - begin)};
  }
  const CsrInMemory& matrix() const noexcept { return matrix_; }
  const MemoryView& view() const noexcept { return matrix_.view; }
  size_t value_bytes() const noexcept { return value_bytes_; }

 private:
  CsrInMemory matrix_;
  Offsets offsets_;
  MatrixInfo info_;
  size_t value_bytes_ = 4;
};

class CsrMemoryRows final : public MemoryRows {
 public:
  CsrMemoryRows(std::shared_ptr<const CsrMatrix> matrix, std::span<const int64_t> columns)
      : matrix_(std::move(matrix)),
        columns_(columns, matrix_->view().columns, matrix_->view().all_columns,
                 matrix_->matrix().columns) {}

  uint64_t most_entries(int64_t row) const override { return matrix_->range(row).count; }

  void read(int64_t row, RowEntries& out) const override {
    const auto [begin, count] = matrix_->range(row);
    const size_t size = matrix_->value_bytes();
    out.index_memory.resize(count);
    copy_ids(row, begin, count, out.index_memory.data());
    // A copy: codes of values that change while they are packed would contradict each other.
    const std::byte* const values = matrix_->matrix().data.data + begin * size;
    out.value_memory.assign(values, values + count * size);
    out.values = out.value_memory.data();
    const size_t kept = columns_.all() ? count : choose(count, size, out);
    out.indices = {out.index_memory.data(), kept};
    if (falls(out.indices)) sort(size, out);
  }

  size_t write_in_place(int64_t row, uint64_t most, const kernel::PackedRowLayout& layout,
                        std::byte* record) const override {
    const auto [begin, count] = matrix_->range(row);
    if (!columns_.all() || count > most) return 0;
    std::byte* const ids =
        kernel::start_in_place_record(record, static_cast<uint32_t>(count),
                                      matrix_->matrix().data.data + begin * matrix_->value_bytes());
    const bool ascends = layout.index_bytes == 2
                             ? write_ids(row, begin, count, reinterpret_cast<uint16_t*>(ids))
                             : write_ids(row, begin, count, reinterpret_cast<uint32_t*>(ids));
    return ascends ? kernel::in_place_record_bytes(layout, static_cast<uint32_t>(count)) : 0;
  }

 private:
  template <typename Index>
  bool write_ids(int64_t row, size_t begin, size_t count, Index* out) const {
    copy_ids(row, begin, count, out);
    return count == 0 || count_not_ascending(out, count, best_vector_path()) == 0;
  }

  template <typename Index>
  void copy_ids(int64_t row, size_t begin, size_t count, Index* out) const {
    const MemoryArray& ids = matrix_->matrix().indices;
    const size_t size = size_of(ids.type);
    const uint64_t most =
        narrow_stored_ids(ids.type, {{ids.data + begin * size, count * size}, false}, count, out);
    if (count == 0 || most < matrix_->matrix().columns) return;
    throw InvalidArgument(concat("column ids must be in 0 … ", matrix_->matrix().columns - 1,
                                 ", but row ", row, " has another"));
  }

  // Every entry is written, but the place advances only after a chosen one: no branch to
  // mispredict.
  size_t choose(size_t count, size_t size, RowEntries& out) const {
    const uint32_t* const table = columns_.data();
    size_t kept = 0;
    const auto keep = [&](auto sample) {
      using Bits = decltype(sample);
      for (size_t i = 0; i < count; ++i) {
        const uint32_t index = table[out.index_memory[i]];
        out.index_memory[kept] = index;
        std::memmove(out.value_memory.data() + kept * sizeof(Bits),
                     out.value_memory.data() + i * sizeof(Bits), sizeof(Bits));
        kept += index != ColumnTable::kNotChosen;
      }
    };
    switch (size) {
      case 1:
        keep(uint8_t{});
        break;
      case 2:
        keep(uint16_t{});
        break;
      case 4:
        keep(uint32_t{});
        break;
      default:
        keep(uint64_t{});
    }
    return kept;
  }

  static bool falls(std::span<const uint32_t> indices) noexcept {
    if (indices.empty() ||
        count_not_ascending(indices.data(), indices.size(), best_vector_path()) == 0) {
      return false;
    }
    for (size_t i = 1; i < indices.size(); ++i) {
      if (indices[i] < indices[i - 1]) return true;
    }
    return false;
  }

  // Duplicates keep their order.
  static void sort(size_t size, RowEntries& out) {
    const size_t count = out.indices.size();
    out.order.resize(count);
    std::iota(out.order.begin(), out.order.end(), uint32_t{0});
    std::stable_sort(out.order.begin(), out.order.end(), [&](uint32_t a, uint32_t b) {
      return out.index_memory[a] < out.index_memory[b];
    });
    out.sorted_values.resize(count * size);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(out.sorted_values.data() + i * size, out.values + out.order[i] * size, size);
      out.order[i] = out.index_memory[out.order[i]];
    }
    out.index_memory.swap(out.order);
    out.indices = {out.index_memory.data(), count};
    out.values = out.sorted_values.data();
  }

  std::shared_ptr<const CsrMatrix> matrix_;
  ColumnTable columns_;
};

std::unique_ptr<const MemoryRows> CsrMatrix::rows(std::span<const int64_t> columns) const {
  return std::make_unique<const CsrMemoryRows>(shared_from_this(), columns);
}

}  // namespace

std::shared_ptr<const MemoryMatrix> make_csr_matrix(CsrInMemory matrix) {
  return std::make_shared<const CsrMatrix>(std::move(matrix));
}

}  // namespace penstock::format
