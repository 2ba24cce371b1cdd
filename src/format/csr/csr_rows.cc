#include "format/csr/csr_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/types/visit_type.h"
#include "format/cells/cell_kernels.h"

namespace penstock::format {
namespace {

/// Finishes rows one after another, with ids of one width and output columns of another.
template <typename Id, typename Index>
class RowFinish {
 public:
  RowFinish(CsrElements& elements, const CsrRowContext& context, std::vector<std::byte>& wide)
      : elements_(elements),
        context_(context),
        wide_(wide),
        ids_(elements.ids.as<Id>().data()),
        codes_(reinterpret_cast<uint8_t*>(elements.codes.data())),
        value_bytes_(context.layout.value_bytes) {}

  void run(CsrRow& row) {
    row.wide_begin = wide_.size();
    row.nnz = row.stored;
    row.wide_count = 0;
    if (row.stored == 0) return;
    const uint64_t end = row.begin + row.stored;
    while (segment_ < elements_.segments.size() && elements_.segments[segment_].end <= row.begin) {
      ++segment_;
    }
    bool raw = false;
    for (size_t i = segment_; i < elements_.segments.size() && elements_.segments[i].begin < end;
         ++i) {
      raw |= elements_.segments[i].raw;
    }
    if (raw) {
      append_all_values(row);
      row.wide_count = kernel::kRawRow;
    } else {
      append_escapes(row);
    }
    Index* const out = reinterpret_cast<Index*>(ids_ + row.begin);
    if (!context_.all_columns) {
      choose(row, out);
    } else if constexpr (sizeof(Id) != sizeof(Index)) {
      for (uint32_t i = 0; i < row.stored; ++i) store(out, i, ids_[row.begin + i]);
    }
    if (falls(out, row.nnz)) sort_row(row, out);
    if (row.wide_count != kernel::kRawRow &&
        uint64_t{row.wide_count} * value_bytes_ + row.nnz > uint64_t{row.nnz} * value_bytes_) {
      make_raw(row);
    }
  }

 private:
  template <typename Body>
  void each_segment(const CsrRow& row, Body&& body) const {
    const uint64_t end = row.begin + row.stored;
    for (size_t i = segment_; i < elements_.segments.size() && elements_.segments[i].begin < end;
         ++i) {
      const CsrSegment& segment = elements_.segments[i];
      body(segment, std::max(segment.begin, row.begin), std::min(segment.end, end));
    }
  }

  /// Calls body(cell, value) for the escapes of a segment in [begin, end).
  template <typename Body>
  void each_escape(const CsrSegment& segment, uint64_t begin, uint64_t end, Body&& body) const {
    const auto& cells = segment.escapes.cells;
    auto at =
        static_cast<size_t>(std::lower_bound(cells.begin(), cells.end(), begin) - cells.begin());
    for (; at < cells.size() && cells[at] < end; ++at) {
      body(cells[at], segment.escapes.values.data() + at * value_bytes_);
    }
  }

  void append(const std::byte* value) { wide_.insert(wide_.end(), value, value + value_bytes_); }

  void append_escapes(CsrRow& row) {
    each_segment(row, [&](const CsrSegment& segment, uint64_t begin, uint64_t end) {
      each_escape(segment, begin, end, [&](uint32_t cell, const std::byte* value) {
        if (!context_.all_columns && output_of(cell) == ColumnMap::kNotChosen) return;
        append(value);
        ++row.wide_count;
      });
    });
  }

  uint32_t output_of(uint64_t cell) const noexcept {
    return context_.columns.find(static_cast<int64_t>(ids_[cell]));
  }

  /// All values of the row in the stored type; after choose() those of the chosen columns.
  void append_all_values(const CsrRow& row) {
    const size_t at = wide_.size();
    wide_.resize(at + row.stored * value_bytes_);
    each_segment(row, [&](const CsrSegment& segment, uint64_t begin, uint64_t end) {
      std::byte* const out = wide_.data() + at + (begin - row.begin) * value_bytes_;
      if (segment.raw) {
        std::memcpy(out, segment.values.data() + (begin - segment.begin) * value_bytes_,
                    (end - begin) * value_bytes_);
        return;
      }
      widen(codes_ + begin, end - begin, out);
      each_escape(segment, begin, end, [&](uint32_t cell, const std::byte* value) {
        std::memcpy(out + (cell - begin) * value_bytes_, value, value_bytes_);
      });
    });
  }

  void widen(const uint8_t* codes, size_t count, std::byte* out) const {
    visit_number(context_.layout.value_type, [&](auto identity) {
      using Value = typename decltype(identity)::type;
      for (size_t i = 0; i < count; ++i) {
        const auto value = static_cast<Value>(codes[i]);
        std::memcpy(out + i * sizeof(Value), &value, sizeof(Value));
      }
    });
  }

  // Every element is written, but the place advances only after a chosen one: no branch to
  // mispredict.
  void choose(CsrRow& row, Index* out) {
    const Id* const ids = ids_ + row.begin;
    uint32_t kept = 0;
    if (row.wide_count == kernel::kRawRow) {
      std::byte* const values = wide_.data() + row.wide_begin;
      context_.columns.with_lookup([&](auto lookup) {
        for (uint32_t i = 0; i < row.stored; ++i) {
          const uint32_t index = lookup(static_cast<uint32_t>(ids[i]));
          store(out, kept, index);
          std::memmove(values + kept * value_bytes_, values + i * value_bytes_, value_bytes_);
          kept += index != ColumnMap::kNotChosen;
        }
      });
      wide_.resize(row.wide_begin + kept * value_bytes_);
    } else {
      uint8_t* const codes = codes_ + row.begin;
      context_.columns.with_lookup([&](auto lookup) {
        for (uint32_t i = 0; i < row.stored; ++i) {
          const uint32_t index = lookup(static_cast<uint32_t>(ids[i]));
          store(out, kept, index);
          codes[kept] = codes[i];
          kept += index != ColumnMap::kNotChosen;
        }
      });
    }
    row.nnz = kept;
  }

  // Columns of 2 bytes are written over ids of 4, so the compiler must not tell them apart by type.
  static void store(Index* out, uint32_t i, uint32_t index) noexcept {
    const auto narrow = static_cast<Index>(index);
    std::memcpy(reinterpret_cast<std::byte*>(out) + i * sizeof(Index), &narrow, sizeof(Index));
  }

  static bool falls(const Index* indices, uint32_t count) noexcept {
    if (count == 0 || count_not_ascending(indices, count, best_vector_path()) == 0) return false;
    for (uint32_t i = 1; i < count; ++i) {
      if (indices[i] < indices[i - 1]) return true;
    }
    return false;
  }

  // 10x files are not sorted in any row.
  void sort_row(CsrRow& row, Index* out) {
    order_.resize(row.nnz);
    std::iota(order_.begin(), order_.end(), uint32_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return out[a] < out[b]; });
    indices_.assign(out, out + row.nnz);
    for (uint32_t i = 0; i < row.nnz; ++i) out[i] = static_cast<Index>(indices_[order_[i]]);
    std::byte* const wide = wide_.data() + row.wide_begin;
    const std::vector<std::byte> before(wide, wide_.data() + wide_.size());
    if (row.wide_count == kernel::kRawRow) {
      for (uint32_t i = 0; i < row.nnz; ++i) {
        std::memcpy(wide + i * value_bytes_, before.data() + order_[i] * value_bytes_,
                    value_bytes_);
      }
      return;
    }
    uint8_t* const codes = codes_ + row.begin;
    old_codes_.assign(codes, codes + row.nnz);
    place_of_wide_.resize(row.nnz);
    uint32_t place = 0;
    for (uint32_t i = 0; i < row.nnz; ++i) {
      place_of_wide_[i] = place;
      place += old_codes_[i] == kEscapeCode;
    }
    std::byte* next = wide;
    for (uint32_t i = 0; i < row.nnz; ++i) {
      codes[i] = old_codes_[order_[i]];
      if (codes[i] != kEscapeCode) continue;
      std::memcpy(next, before.data() + place_of_wide_[order_[i]] * value_bytes_, value_bytes_);
      next += value_bytes_;
    }
  }

  // Codes and escapes would take more than the values.
  void make_raw(CsrRow& row) {
    const std::vector<std::byte> escapes(wide_.begin() + static_cast<ptrdiff_t>(row.wide_begin),
                                         wide_.end());
    wide_.resize(row.wide_begin + row.nnz * value_bytes_);
    std::byte* const out = wide_.data() + row.wide_begin;
    const uint8_t* const codes = codes_ + row.begin;
    widen(codes, row.nnz, out);
    const std::byte* next = escapes.data();
    for (uint32_t i = 0; i < row.nnz; ++i) {
      if (codes[i] != kEscapeCode) continue;
      std::memcpy(out + i * value_bytes_, next, value_bytes_);
      next += value_bytes_;
    }
    row.wide_count = kernel::kRawRow;
  }

  CsrElements& elements_;
  const CsrRowContext& context_;
  std::vector<std::byte>& wide_;
  Id* const ids_;
  uint8_t* const codes_;
  const size_t value_bytes_;
  size_t segment_ = 0;  // the first that reaches past the current row's begin
  std::vector<uint32_t> order_, place_of_wide_;
  std::vector<Index> indices_;
  std::vector<uint8_t> old_codes_;
};

template <typename Id, typename Index>
void finish_all(CsrElements& elements, const CsrRowContext& context, std::span<CsrRow> rows,
                std::vector<std::byte>& wide) {
  RowFinish<Id, Index> finish(elements, context, wide);
  for (CsrRow& row : rows) finish.run(row);
}

}  // namespace

void finish_rows(CsrElements& elements, const CsrRowContext& context, std::span<CsrRow> rows,
                 std::vector<std::byte>& wide) {
  if (elements.id_bytes == 2) {
    finish_all<uint16_t, uint16_t>(elements, context, rows, wide);
  } else if (context.layout.index_bytes == 2) {
    finish_all<uint32_t, uint16_t>(elements, context, rows, wide);
  } else {
    finish_all<uint32_t, uint32_t>(elements, context, rows, wide);
  }
}

void pack_csr_row(const CsrElements& elements, const kernel::PackedRowLayout& layout,
                  const CsrRow& row, std::span<const std::byte> wide, std::byte* destination) {
  const bool raw = row.wide_count == kernel::kRawRow;
  const std::byte* const end = destination + layout.record_bytes(row.nnz, row.wide_count);
  const kernel::PackedRowHeader header{row.nnz, row.wide_count};
  std::memcpy(destination, &header, sizeof(header));
  std::byte* out = destination + sizeof(header);
  const auto copy = [&](const std::byte* from, size_t bytes) {
    if (bytes != 0) std::memcpy(out, from, bytes);
    out += bytes;
  };
  copy(wide.data() + row.wide_begin, size_t{raw ? row.nnz : row.wide_count} * layout.value_bytes);
  copy(elements.ids.data() + row.begin * elements.id_bytes, size_t{row.nnz} * layout.index_bytes);
  if (!raw) copy(elements.codes.data() + row.begin, row.nnz);
  std::memset(out, 0, static_cast<size_t>(end - out));
}

}  // namespace penstock::format
