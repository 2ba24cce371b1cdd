#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/concat.h"
#include "base/escape_code.h"
#include "base/hash/checksum.h"
#include "format/row_file/column_sums.h"
#include "format/row_file/number_block.h"
#include "format/row_file/record_head.h"
#include "format/row_file/row_record.h"
#include "kernel/encode_values.h"
#include "kernel/value_type.h"

namespace penstock::format::pack {
namespace {

using kernel::kRawRow;

uint32_t read_varint(ByteReader& reader, std::string_view what) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift <= 28; shift += 7) {
    const auto byte = reader.read<uint8_t>(what);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) {
      if (value > 0xFFFFFFFFU) break;
      return static_cast<uint32_t>(value);
    }
  }
  throw CorruptData(std::string(what) + " is out of range");
}

/// Reads wide values in their own type, in order.
template <typename T>
class WideValues {
 public:
  WideValues(std::byte* out, uint32_t room, std::span<const std::byte> escapes)
      : out_(out), room_(room), escapes_(escapes) {}

  uint8_t code_of_count(uint32_t count) {
    if (count < kEscapeCode) return static_cast<uint8_t>(count);
    if constexpr (std::is_integral_v<T>) {
      if (!std::in_range<T>(count)) {
        throw CorruptData(concat("a count of ", count, " in too narrow a type"));
      }
    }
    append(static_cast<T>(count));
    return kEscapeCode;
  }
  uint8_t code_of_escape() {
    if (escapes_.empty()) throw CorruptData("more escapes than there are values for");
    const T value = kernel::load_unaligned<T>(escapes_.data());
    escapes_ = escapes_.subspan(sizeof(T));
    const uint8_t code = kernel::encode_one(value);
    if (code == kEscapeCode) append(value);
    return code;
  }
  void finish() const {
    if (room_ != 0 || !escapes_.empty()) {
      throw CorruptData(concat("values that a row should have and has not: ", room_, " wide, ",
                               escapes_.size() / sizeof(T), " escapes"));
    }
  }

 private:
  void append(T value) {
    if (room_ == 0) throw CorruptData("more wide values than the row says");
    --room_;
    std::memcpy(out_, &value, sizeof(T));
    out_ += sizeof(T);
  }

  std::byte* out_;
  uint32_t room_;
  std::span<const std::byte> escapes_;
};

/// Splits stored values into codes and values without a code.
template <typename T>
void encode_raw(std::span<const std::byte> values, uint32_t nnz, uint8_t* codes, std::byte* wide,
                uint32_t wide_count, VectorPath path) {
  if (kernel::encode<T>(values.data(), nnz, codes, path) != wide_count) {
    throw CorruptData(concat("a row that has not ", wide_count, " wide values"));
  }
  for (uint32_t i = 0, left = wide_count; left != 0; ++i) {
    if (codes[i] != kEscapeCode) continue;
    std::memcpy(wide, values.data() + size_t{i} * sizeof(T), sizeof(T));
    wide += sizeof(T);
    --left;
  }
}

/// For most blocks: counts up to 128, with a few exceptions patched in the codes.
template <typename T>
void decode_narrow(const NumberBlock& block, uint32_t count, uint8_t* codes, WideValues<T>& wide,
                   VectorPath path) {
  unpack_counts(block.numbers, count, block.width, codes, path);
  block.for_each_exception(count, [&](uint32_t place, uint32_t high) {
    codes[place] = high == 0 ? wide.code_of_escape()
                             : wide.code_of_count((high << block.width) + codes[place]);
  });
}

/// For blocks of large counts.
template <typename T>
void decode_broad(const NumberBlock& block, uint32_t count, uint8_t* codes, WideValues<T>& wide,
                  VectorPath path) {
  constexpr uint32_t kEscaped = 0xFFFFFFFFU;
  std::array<uint32_t, kBlockNumbers> numbers;
  unpack_bits(block.numbers, count, block.width, numbers.data(), path);
  block.for_each_exception(count, [&](uint32_t place, uint32_t high) {
    numbers[place] = high == 0 ? kEscaped : numbers[place] | high << block.width;
  });
  for (uint32_t i = 0; i < count; ++i) {
    codes[i] = numbers[i] == kEscaped ? wide.code_of_escape() : wide.code_of_count(numbers[i] + 1);
  }
}

constexpr unsigned kMaxNarrowWidth = 7;

template <typename T>
void decode_counts(ByteReader& reader, uint32_t nnz, uint32_t wide_count,
                   std::span<const std::byte> escapes, uint8_t* codes, std::byte* wide_out,
                   VectorPath path) {
  WideValues<T> wide(wide_out, wide_count, escapes);
  for (uint32_t begin = 0; begin < nnz; begin += kBlockNumbers) {
    const uint32_t count = std::min(kBlockNumbers, nnz - begin);
    const auto block = NumberBlock::read(reader, count);
    if (block.width <= kMaxNarrowWidth) {
      decode_narrow(block, count, codes + begin, wide, path);
    } else {
      decode_broad(block, count, codes + begin, wide, path);
    }
  }
  wide.finish();
}

}  // namespace

struct RowDecoder::Header {
  uint8_t form = kCountForm;
  bool repeats = false;
  uint32_t nnz = 0;
  uint32_t wide_count = 0;
  uint32_t escape_count = 0;

  /// Rows that are smaller without codes are packed raw (kernel::choose_wide_count).
  bool packs_raw(size_t value_bytes) const {
    return uint64_t{wide_count} * value_bytes + nnz > uint64_t{nnz} * value_bytes;
  }
};

RowDecoder::RowDecoder(const kernel::PackedRowLayout& layout, uint64_t column_count,
                       VectorPath path)
    : layout_(layout), column_count_(column_count), path_(path) {
  check_columns(layout, column_count);
}

bool RowDecoder::intact(std::span<const std::byte> stored) const noexcept {
  if (stored.empty()) return true;
  uint32_t said;
  if (stored.size() < sizeof(said)) return false;
  std::memcpy(&said, stored.data(), sizeof(said));
  return said == lane_checksum(stored.subspan(sizeof(said)), path_);
}

RowDecoder::Header RowDecoder::read_header(ByteReader& reader) const {
  Header header;
  reader.skip(sizeof(uint32_t), "checksum of a row");
  const auto form = reader.read<uint8_t>("form of a row");
  header.form = form & kFormMask;
  header.repeats = (form & kRepeatsFlag) != 0;
  if (header.form > kRawForm || (form & ~(kFormMask | kRepeatsFlag)) != 0) {
    throw CorruptData(concat("form of a row: ", form));
  }
  header.nnz = read_varint(reader, "number of non-zeros");
  const uint64_t blocks = (uint64_t{header.nnz} + kBlockNumbers - 1) / kBlockNumbers;
  header.wide_count = read_varint(reader, "number of wide values");
  if (header.wide_count > header.nnz) {
    throw CorruptData(
        concat("a row of ", header.nnz, " non-zeros with ", header.wide_count, " wide values"));
  }
  if (header.form == kRawForm) {
    reader.expect_items(header.nnz, layout_.value_bytes, "values of a row");
    reader.expect_items(blocks, sizeof(uint16_t), "blocks of a row");
    return header;
  }
  header.escape_count = read_varint(reader, "number of escapes");
  reader.expect_items(2 * blocks, sizeof(uint16_t), "blocks of a row");
  // Each is an exception, or a number of eight bits or more.
  reader.expect_items(header.wide_count, 1, "wide values of a row");
  reader.expect_items(header.escape_count, layout_.value_bytes, "escapes of a row");
  return header;
}

RowShape RowDecoder::shape(std::span<const std::byte> stored) const {
  if (stored.empty()) return {};
  ByteReader reader(stored);
  const Header header = read_header(reader);
  return {header.nnz, header.packs_raw(layout_.value_bytes) ? kRawRow : header.wide_count};
}

template <typename Index>
void RowDecoder::decode_columns(ByteReader& reader, uint32_t nnz, bool repeats,
                                std::byte* out) const {
  constexpr unsigned kIndexBits = sizeof(Index) * 8;
  thread_local std::vector<Index> gaps;
  if (gaps.size() < nnz) gaps.resize(nnz);
  for (uint32_t begin = 0; begin < nnz; begin += kBlockNumbers) {
    const uint32_t count = std::min(kBlockNumbers, nnz - begin);
    const auto block = NumberBlock::read(reader, count);
    if (block.width + block.high_width > kIndexBits) {
      throw CorruptData(concat("gaps of ", block.width + block.high_width,
                               " bits between columns of ", kIndexBits));
    }
    Index* const to = gaps.data() + begin;
    unpack_bits(block.numbers, count, block.width, to, path_);
    block.for_each_exception(count, [&](uint32_t place, uint32_t high) {
      to[place] = static_cast<Index>(to[place] | high << block.width);
    });
  }
  sum_gaps(gaps.data(), nnz, !repeats, column_count_, out, path_);
}

void RowDecoder::decode(std::span<const std::byte> stored, const RowShape& shape,
                        std::byte* destination) const {
  const kernel::PackedRowHeader packed{shape.nnz, shape.wide_count};
  std::memcpy(destination, &packed, sizeof(packed));
  if (shape.nnz == 0) return;
  ByteReader reader(stored);
  const Header header = read_header(reader);
  const bool raw = header.packs_raw(layout_.value_bytes);
  if (header.nnz != shape.nnz || (raw ? kRawRow : header.wide_count) != shape.wide_count) {
    throw Internal("a row record of another shape than was said");
  }
  const size_t wide_bytes = size_t{raw ? header.nnz : header.wide_count} * layout_.value_bytes;
  std::byte* const wide = destination + sizeof(packed);
  std::byte* const indices = wide + wide_bytes;
  if (layout_.index_bytes == 2) {
    decode_columns<uint16_t>(reader, header.nnz, header.repeats, indices);
  } else {
    decode_columns<uint32_t>(reader, header.nnz, header.repeats, indices);
  }
  auto* const codes =
      reinterpret_cast<uint8_t*>(indices + size_t{header.nnz} * layout_.index_bytes);
  if (header.form == kRawForm) {
    const auto values = reader.take(uint64_t{header.nnz} * layout_.value_bytes, "values of a row");
    if (raw) {
      std::memcpy(wide, values.data(), wide_bytes);
    } else {
      visit_number(layout_.value_type, [&](auto identity) {
        encode_raw<typename decltype(identity)::type>(values, header.nnz, codes, wide,
                                                      header.wide_count, path_);
      });
    }
    return;
  }
  const auto escapes =
      reader.take(uint64_t{header.escape_count} * layout_.value_bytes, "escapes of a row");
  visit_number(layout_.value_type, [&](auto identity) {
    using T = typename decltype(identity)::type;
    if (!raw) {
      decode_counts<T>(reader, header.nnz, header.wide_count, escapes, codes, wide, path_);
      return;
    }
    // Counts that are mostly above 254.
    thread_local std::vector<uint8_t> own_codes;
    thread_local std::vector<T> values;
    own_codes.resize(header.nnz);
    values.resize(header.wide_count);
    decode_counts<T>(reader, header.nnz, header.wide_count, escapes, own_codes.data(),
                     reinterpret_cast<std::byte*>(values.data()), path_);
    size_t next = 0;
    for (uint32_t i = 0; i < header.nnz; ++i) {
      const T value = own_codes[i] == kEscapeCode ? values[next++] : static_cast<T>(own_codes[i]);
      std::memcpy(wide + size_t{i} * sizeof(T), &value, sizeof(T));
    }
  });
}

}  // namespace penstock::format::pack
