#include "kernel/unpack_row.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <type_traits>

#include "kernel/stream_out.h"
#include "kernel/value_type.h"
#include "kernel/widen.h"

namespace penstock::kernel {
namespace {

/// Codes that the output type cannot hold: 128 … 254 in an int8.
template <typename Out>
constexpr bool code_fits(uint8_t code) noexcept {
  return !std::is_same_v<Out, int8_t> || code < 128;
}

template <typename Out>
Out load_at(const std::byte* data, size_t position) noexcept {
  return load_unaligned<Out>(data + position * sizeof(Out));
}

template <typename Stored, typename Out, typename Index, VectorPath kPath>
uint32_t append(const PackedRowView& row, int32_t* indices, std::byte* data) {
  if constexpr (sizeof(Index) == 2) {
    widen_indices(row.indices, row.nnz, indices, kPath);
  } else if (row.nnz != 0) {
    std::memcpy(indices, row.indices, size_t{row.nnz} * sizeof(Index));
  }
  // Batches align their arrays to the type; rows within them are then aligned too.
  Out* const out = reinterpret_cast<Out*>(data);
  if (row.codes == nullptr) {
    if constexpr (std::is_same_v<Stored, Out>) {
      if (row.nnz != 0) std::memcpy(out, row.wide, size_t{row.nnz} * sizeof(Out));
    } else {
      for (uint32_t i = 0; i < row.nnz; ++i) {
        if (!convert_value(load_at<Stored>(row.wide, i), out[i])) return i;
      }
    }
    return kNoMisfit;
  }
  widen_codes(row.codes, row.nnz, out, kPath);
  if constexpr (std::is_same_v<Out, int8_t>) {
    for (uint32_t i = 0; i < row.nnz; ++i) {
      if (out[i] < 0 && row.codes[i] != kEscapeCode) return i;
    }
  }
  uint32_t i = 0;
  for (uint32_t k = 0; k < row.wide_count; ++k, ++i) {
    i = find_escape(row.codes, i, row.nnz, kPath);
    if (i >= row.nnz) break;
    if (!convert_value(load_at<Stored>(row.wide, k), out[i])) return i;
  }
  return kNoMisfit;
}

/// Adds to a cell of a dense row. False if the sum of duplicates overflows an integer type.
template <typename Out>
bool add_value(Out& cell, Out value) noexcept {
  if constexpr (std::is_floating_point_v<Out>) {
    cell += value;
    return true;
  } else {
    Out sum;
    if (__builtin_add_overflow(cell, value, &sum)) return false;
    cell = sum;
    return true;
  }
}

/// Iterates over the entries of a row in order.
template <typename Stored, typename Out, typename Index>
class EntryCursor {
 public:
  explicit EntryCursor(const PackedRowView& row) : row_(row) {}

  uint32_t entry() const noexcept { return entry_; }
  bool at_end() const noexcept { return entry_ == row_.nnz; }
  uint32_t column() const noexcept { return column_of(entry_); }
  uint32_t column_of(uint32_t entry) const noexcept {
    return static_cast<uint32_t>(load_at<Index>(row_.indices, entry));
  }

  /// Adds the value to `cell` and advances. False if the value or the sum does not fit.
  bool add_to(Out& cell) noexcept {
    Out value;
    if (row_.codes != nullptr && row_.codes[entry_] != kEscapeCode) {
      if (!code_fits<Out>(row_.codes[entry_])) return false;
      value = static_cast<Out>(row_.codes[entry_]);
    } else if (!convert_value(load_at<Stored>(row_.wide, wide_++), value)) {
      return false;
    }
    if (!add_value(cell, value)) return false;
    ++entry_;
    return true;
  }

 private:
  const PackedRowView& row_;
  uint32_t entry_ = 0;
  uint32_t wide_ = 0;
};

template <typename Stored, typename Out, typename Index>
uint32_t scatter(const PackedRowView& row, std::byte* dense) {
  Out* const out = reinterpret_cast<Out*>(dense);
  EntryCursor<Stored, Out, Index> cursor(row);
  while (!cursor.at_end()) {
    if (!cursor.add_to(out[cursor.column()])) return cursor.entry();
  }
  return kNoMisfit;
}

template <typename Stored, typename Out, typename Index>
uint32_t fill(const PackedRowView& row, std::byte* dense, uint32_t columns) {
  constexpr uint32_t kPiece = kStreamBytes / sizeof(Out);
  alignas(64) Out piece[kPiece] = {};
  EntryCursor<Stored, Out, Index> cursor(row);
  // The first piece ends at a cache line of the destination; the others begin and end at one.
  const auto misaligned = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(dense) % 64);
  uint32_t end = std::min<uint32_t>(columns, (kStreamBytes - misaligned) / sizeof(Out));
  for (uint32_t begin = 0; begin < columns; begin = end, end = std::min(columns, end + kPiece)) {
    const uint32_t first = cursor.entry();
    while (!cursor.at_end() && cursor.column() < end) {
      if (!cursor.add_to(piece[cursor.column() - begin])) return cursor.entry();
    }
    stream_out(dense + size_t{begin} * sizeof(Out), reinterpret_cast<const std::byte*>(piece),
               size_t{end - begin} * sizeof(Out));
    for (uint32_t i = first; i < cursor.entry(); ++i) piece[cursor.column_of(i) - begin] = Out{};
  }
  return kNoMisfit;
}

}  // namespace

RowUnpacker::RowUnpacker(const PackedRowLayout& layout, DataType output_type, VectorPath path)
    : layout_(layout), output_type_(output_type) {
  visit_number(layout.value_type, [&](auto stored_identity) {
    using Stored = typename decltype(stored_identity)::type;
    visit_number(output_type, [&](auto out_identity) {
      using Out = typename decltype(out_identity)::type;
      const bool narrow = layout.index_bytes == 2;
      if (path == VectorPath::kAvx2) {
        append_ = narrow ? append<Stored, Out, uint16_t, VectorPath::kAvx2>
                         : append<Stored, Out, uint32_t, VectorPath::kAvx2>;
      } else {
        append_ = narrow ? append<Stored, Out, uint16_t, VectorPath::kScalar>
                         : append<Stored, Out, uint32_t, VectorPath::kScalar>;
      }
      scatter_ = narrow ? scatter<Stored, Out, uint16_t> : scatter<Stored, Out, uint32_t>;
      fill_ = narrow ? fill<Stored, Out, uint16_t> : fill<Stored, Out, uint32_t>;
    });
  });
}

void finish_dense() noexcept { stream_fence(); }

uint32_t entry_column(const PackedRowView& view, const PackedRowLayout& layout, uint32_t entry) {
  return layout.index_bytes == 2 ? load_at<uint16_t>(view.indices, entry)
                                 : load_at<uint32_t>(view.indices, entry);
}

std::string entry_text(const PackedRowView& view, const PackedRowLayout& layout, uint32_t entry) {
  uint32_t wide = entry;
  if (view.codes != nullptr) {
    if (view.codes[entry] != kEscapeCode) return std::to_string(view.codes[entry]);
    wide = 0;
    for (uint32_t i = 0; i < entry; ++i) wide += view.codes[i] == kEscapeCode;
  }
  return visit_number(layout.value_type, [&](auto identity) {
    std::array<char, 32> text;  // a double takes at most 24
    const auto value = load_at<typename decltype(identity)::type>(view.wide, wide);
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return std::string(text.data(), end);
  });
}

}  // namespace penstock::kernel
