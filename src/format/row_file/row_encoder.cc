#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/escape_code.h"
#include "base/hash/checksum.h"
#include "format/row_file/number_block.h"
#include "format/row_file/record_head.h"
#include "format/row_file/row_record.h"
#include "kernel/encode_values.h"
#include "kernel/value_type.h"

namespace penstock::format::pack {
namespace {

using kernel::load_unaligned;
using kernel::PackedRowView;

void append_bytes(std::vector<std::byte>& out, const void* from, size_t count) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  out.insert(out.end(), bytes, bytes + count);
}

void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_varint(std::vector<std::byte>& out, uint32_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

/// Returns the value less one if it is an integer from 1 to 2^31 and no bits are lost.
template <typename T>
bool as_count(T value, uint32_t& number) noexcept {
  constexpr uint32_t kMost = uint32_t{1} << kMaxBitWidth;
  if constexpr (std::is_floating_point_v<T>) {
    if (!(value >= 1 && value <= static_cast<T>(kMost))) return false;
    number = static_cast<uint32_t>(value) - 1;
    return static_cast<T>(number + 1) == value;
  } else {
    if (!std::in_range<uint32_t>(value) || static_cast<uint32_t>(value) == 0 ||
        static_cast<uint32_t>(value) > kMost) {
      return false;
    }
    number = static_cast<uint32_t>(value) - 1;
    return true;
  }
}

/// Writes codes less one to `numbers`. Returns false if one is not a count: a stored zero or an
/// escape.
bool plain_counts(const uint8_t* codes, size_t count, uint8_t* numbers) noexcept {
  uint8_t most = 0;
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<uint8_t>(codes[i] - 1);
    most = std::max(most, numbers[i]);
  }
  return most < kEscapeCode - 1;
}

/// Writes the gaps before entries [begin, begin + count) of a row, followed by zeros. Returns
/// whether a gap is -1: a repeated column if `step` is 1.
template <typename Index>
bool find_gaps(const std::byte* columns, size_t begin, size_t count, Index step,
               std::array<Index, kBlockNumbers>& gaps) noexcept {
  const std::byte* const first = columns + begin * sizeof(Index);
  for (size_t i = begin == 0 ? 1 : 0; i < count; ++i) {
    const std::byte* const at = first + i * sizeof(Index);
    gaps[i] = static_cast<Index>(load_unaligned<Index>(at) -
                                 load_unaligned<Index>(at - sizeof(Index)) - step);
  }
  if (begin == 0) gaps[0] = 0;
  std::fill(gaps.begin() + static_cast<ptrdiff_t>(count), gaps.end(), Index{0});
  unsigned repeats = 0;
  for (const Index gap : gaps) repeats |= gap == std::numeric_limits<Index>::max() ? 1U : 0U;
  if (begin == 0) gaps[0] = load_unaligned<Index>(columns);
  return repeats != 0;
}

}  // namespace

RowEncoder::RowEncoder(const kernel::PackedRowLayout& layout, uint64_t column_count,
                       VectorPath path)
    : layout_(layout), gaps_(path), counts_(path) {
  check_columns(layout, column_count);
}

/// Returns false if a column repeats although `step` says that none does.
template <typename Index>
bool RowEncoder::append_gaps(const PackedRowView& row, Index step) {
  gaps_.clear();
  std::array<Index, kBlockNumbers> gaps;
  for (size_t begin = 0; begin < row.nnz; begin += kBlockNumbers) {
    const size_t count = std::min<size_t>(kBlockNumbers, row.nnz - begin);
    if (find_gaps(row.indices, begin, count, step, gaps) && step != 0) return false;
    if constexpr (sizeof(Index) == 2) {
      gaps_.append(gaps.data(), count);
    } else {
      gaps_.append(gaps.data(), count, {});
    }
  }
  return true;
}

/// Returns whether a column repeats.
template <typename Index>
bool RowEncoder::append_columns(const PackedRowView& row) {
  if (append_gaps<Index>(row, 1)) return false;
  append_gaps<Index>(row, 0);
  return true;
}

/// Appends blocks and escapes of a row's values. Returns false if the raw form is better.
bool RowEncoder::append_counts(const PackedRowView& row, uint32_t& wide_count) {
  std::array<uint8_t, kBlockNumbers> small{};
  std::array<uint32_t, kBlockNumbers> numbers;
  const std::byte* wide = row.wide;
  wide_count = 0;
  return visit_number(layout_.value_type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    for (size_t begin = 0; begin < row.nnz; begin += kBlockNumbers) {
      const size_t count = std::min<size_t>(kBlockNumbers, row.nnz - begin);
      if (row.codes != nullptr && plain_counts(row.codes + begin, count, small.data())) {
        std::fill(small.begin() + static_cast<ptrdiff_t>(count), small.end(), uint8_t{0});
        counts_.append(small.data(), count);
        continue;
      }
      numbers = {};
      BlockMask escapes;
      for (size_t i = 0; i < count; ++i) {
        const uint8_t code = row.codes == nullptr ? kEscapeCode : row.codes[begin + i];
        if (code != kEscapeCode && code != 0) {
          numbers[i] = code - 1U;
          continue;
        }
        T value{};
        if (code == kEscapeCode) {
          value = load_unaligned<T>(wide);
          wide += sizeof(T);
        }
        // A stored zero is an escape here but a code in the packed row.
        wide_count += kernel::encode_one(value) == kEscapeCode ? 1U : 0U;
        if (as_count(value, numbers[i])) continue;
        numbers[i] = 0;
        escapes.set(i);
        append_bytes(escapes_, &value, sizeof(T));
      }
      if (escapes.count() > kMaxExceptions) return false;
      append_numbers(numbers, count, escapes);
    }
    return escapes_.size() + counts_.bytes().size() < size_t{row.nnz} * sizeof(T);
  });
}

/// Appends a block of counts less one, as 16-bit numbers if they are, because vectors take these.
void RowEncoder::append_numbers(const std::array<uint32_t, kBlockNumbers>& numbers, size_t count,
                                const BlockMask& escapes) {
  const uint32_t any = std::accumulate(numbers.begin(), numbers.end(), 0U, std::bit_or<>());
  if (any > std::numeric_limits<uint16_t>::max() || escapes.count() != 0) {
    counts_.append(numbers.data(), count, escapes);
    return;
  }
  std::array<uint16_t, kBlockNumbers> narrow;
  std::transform(numbers.begin(), numbers.end(), narrow.begin(),
                 [](uint32_t number) { return static_cast<uint16_t>(number); });
  counts_.append(narrow.data(), count);
}

size_t RowEncoder::append(const std::byte* packed_row, std::vector<std::byte>& out) {
  const auto row = PackedRowView::of(packed_row, layout_);
  if (row.nnz == 0) return 0;
  const bool repeats =
      layout_.index_bytes == 2 ? append_columns<uint16_t>(row) : append_columns<uint32_t>(row);
  counts_.clear();
  escapes_.clear();
  uint32_t wide_count = 0;
  const bool counts = append_counts(row, wide_count);
  body_.clear();
  body_.push_back(
      static_cast<std::byte>((counts ? kCountForm : kRawForm) | (repeats ? kRepeatsFlag : 0)));
  append_varint(body_, row.nnz);
  if (!counts) wide_count = row.codes == nullptr ? row.nnz : row.wide_count;
  append_varint(body_, wide_count);
  if (counts) {
    append_varint(body_, static_cast<uint32_t>(escapes_.size() / layout_.value_bytes));
  }
  append_bytes(body_, gaps_.bytes());
  if (counts) {
    append_bytes(body_, escapes_);
    append_bytes(body_, counts_.bytes());
  } else {
    append_raw(row);
  }
  body_.resize((body_.size() + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment);
  const uint32_t checksum = lane_checksum(body_);
  append_bytes(out, &checksum, sizeof(checksum));
  append_bytes(out, body_);
  return sizeof(checksum) + body_.size();
}

/// Appends all values of a row in the stored type.
void RowEncoder::append_raw(const PackedRowView& row) {
  if (row.codes == nullptr) {
    append_bytes(body_, row.wide, size_t{row.nnz} * layout_.value_bytes);
    return;
  }
  visit_number(layout_.value_type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    const std::byte* wide = row.wide;
    for (size_t i = 0; i < row.nnz; ++i) {
      T value = static_cast<T>(row.codes[i]);
      if (row.codes[i] == kEscapeCode) {
        value = load_unaligned<T>(wide);
        wide += sizeof(T);
      }
      append_bytes(body_, &value, sizeof(T));
    }
  });
}

}  // namespace penstock::format::pack
