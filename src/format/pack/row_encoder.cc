#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "base/escape_code.h"
#include "format/pack/number_block.h"
#include "format/pack/record_head.h"
#include "format/pack/row_record.h"
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

void append_varint(std::vector<std::byte>& out, uint32_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

/// The value less one where it is an integer from 1 to 2^31 and nothing of it is lost.
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

uint32_t column_at(const PackedRowView& row, uint8_t index_bytes, size_t entry) {
  return index_bytes == 2 ? load_unaligned<uint16_t>(row.indices + entry * 2)
                          : load_unaligned<uint32_t>(row.indices + entry * 4);
}

}  // namespace

/// How a block is written at least cost.
struct RowEncoder::Block {
  unsigned width = 0;
  unsigned high_width = 0;
  uint32_t exceptions = 0;

  /// `lengths[n]`: numbers of n bits; `escapes`: of those that are exceptions whatever the width.
  static Block cheapest(const std::array<uint32_t, 32>& lengths, uint32_t escapes, size_t count) {
    unsigned longest = kMaxBitWidth;
    while (longest != 0 && lengths[longest] == 0) --longest;
    Block best;
    size_t least = ~size_t{0};
    uint32_t exceptions = escapes;
    for (unsigned width = longest;; --width) {
      if (exceptions > kMaxExceptions) break;
      const unsigned high_width = exceptions == escapes ? 0 : longest - width;
      const size_t bytes =
          packed_bytes(count, width) + packed_bytes(exceptions, kPlaceBits + high_width);
      if (bytes < least) {
        least = bytes;
        best = {width, high_width, exceptions};
      }
      if (width == 0) break;
      exceptions += lengths[width];
    }
    return best;
  }
};

RowEncoder::RowEncoder(const kernel::PackedRowLayout& layout, uint64_t column_count)
    : layout_(layout) {
  check_columns(layout, column_count);
}

void RowEncoder::append_block(const uint32_t* numbers, const bool* escaped, size_t count) {
  std::array<uint32_t, 32> lengths{};
  uint32_t escapes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (escaped != nullptr && escaped[i]) {
      ++escapes;
    } else {
      ++lengths[static_cast<size_t>(std::bit_width(numbers[i]))];
    }
  }
  const Block block = Block::cheapest(lengths, escapes, count);
  const auto head =
      static_cast<uint16_t>(block.width | block.high_width << 5 | block.exceptions << 10);
  append_bytes(blocks_, &head, sizeof(head));

  const uint32_t mask = (uint32_t{1} << block.width) - 1;
  std::array<uint32_t, kBlockNumbers> low;
  uint64_t bits = 0;  // of exceptions that are not written yet
  unsigned held = 0;
  const auto flush = [&](unsigned least) {
    for (; held >= least && held != 0; bits >>= 8, held -= std::min(held, 8U)) {
      blocks_.push_back(static_cast<std::byte>(bits));
    }
  };
  for (size_t i = 0; i < count; ++i) {
    low[i] = numbers[i] & mask;
    const bool escape = escaped != nullptr && escaped[i];
    if (!escape && numbers[i] <= mask) continue;
    const uint64_t high = escape ? 0 : numbers[i] >> block.width;
    bits |= (uint64_t{i} | high << kPlaceBits) << held;  // at most 7 + 38 bits
    held += kPlaceBits + block.high_width;
    flush(8);
  }
  flush(1);
  std::array<std::byte, kBlockNumbers * sizeof(uint32_t) + 8> packed;
  pack_bits(low.data(), count, block.width, packed.data());
  append_bytes(blocks_, packed.data(), packed_bytes(count, block.width));
}

void RowEncoder::append_gaps(const PackedRowView& row, bool repeats) {
  std::array<uint32_t, kBlockNumbers> gaps;
  const uint32_t step = repeats ? 0 : 1;
  uint32_t least = 0;  // of the next column
  for (size_t begin = 0; begin < row.nnz; begin += kBlockNumbers) {
    const size_t count = std::min<size_t>(kBlockNumbers, row.nnz - begin);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t column = column_at(row, layout_.index_bytes, begin + i);
      gaps[i] = column - least;
      least = column + step;
    }
    append_block(gaps.data(), nullptr, count);
  }
}

/// Blocks and escapes of a row's values; false where they are better kept as they are.
bool RowEncoder::append_counts(const PackedRowView& row, uint32_t& wide_count) {
  std::array<uint32_t, kBlockNumbers> numbers;
  std::array<bool, kBlockNumbers> escaped;
  const std::byte* wide = row.wide;
  wide_count = 0;
  return kernel::with_value_type(layout_.value_type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    for (size_t begin = 0; begin < row.nnz; begin += kBlockNumbers) {
      const size_t count = std::min<size_t>(kBlockNumbers, row.nnz - begin);
      uint32_t escapes = 0;
      for (size_t i = 0; i < count; ++i) {
        const uint8_t code = row.codes == nullptr ? kEscapeCode : row.codes[begin + i];
        if (code != kEscapeCode && code != 0) {
          numbers[i] = code - 1U;
          escaped[i] = false;
          continue;
        }
        T value{};
        if (code == kEscapeCode) {
          value = load_unaligned<T>(wide);
          wide += sizeof(T);
        }
        numbers[i] = 0;
        escaped[i] = !as_count(value, numbers[i]);
        // A zero that is stored is an escape here, and a code of the packed row.
        wide_count += kernel::encode_one(value) == kEscapeCode ? 1U : 0U;
        if (!escaped[i]) continue;
        append_bytes(escapes_, &value, sizeof(T));
        ++escapes;
      }
      if (escapes > kMaxExceptions) return false;
      append_block(numbers.data(), escaped.data(), count);
    }
    return escapes_.size() + blocks_.size() < size_t{row.nnz} * sizeof(T);
  });
}

size_t RowEncoder::append(const std::byte* packed_row, std::vector<std::byte>& out) {
  const auto row = PackedRowView::of(packed_row, layout_);
  if (row.nnz == 0) return 0;
  bool repeats = false;
  for (size_t i = 1; i < row.nnz && !repeats; ++i) {
    repeats = column_at(row, layout_.index_bytes, i) == column_at(row, layout_.index_bytes, i - 1);
  }
  blocks_.clear();
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
  std::swap(values_, blocks_);
  blocks_.clear();
  append_gaps(row, repeats);
  append_bytes(body_, blocks_.data(), blocks_.size());
  if (counts) {
    append_bytes(body_, escapes_.data(), escapes_.size());
    append_bytes(body_, values_.data(), values_.size());
  } else {
    append_raw(row);
  }
  body_.resize((body_.size() + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment);
  const uint32_t checksum = lane_checksum(body_);
  append_bytes(out, &checksum, sizeof(checksum));
  append_bytes(out, body_.data(), body_.size());
  return sizeof(checksum) + body_.size();
}

/// All values of a row in the stored type.
void RowEncoder::append_raw(const PackedRowView& row) {
  if (row.codes == nullptr) {
    append_bytes(body_, row.wide, size_t{row.nnz} * layout_.value_bytes);
    return;
  }
  kernel::with_value_type(layout_.value_type, [&](auto identity) {
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
