#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>

#include "base/escape_code.h"

// The packed form of one row in memory: about 3 bytes a non-zero for counts.
//
//   PackedRowHeader | wide values | indices | codes      (padding only at the end, to 8 bytes)
//
//   indices  uint16 or uint32 each: the remapped column, ascending
//   codes    one byte a value: an integer 0 … 254 is itself; 255 is an escape, whose exact value is
//            the next wide value (stored type, in order). Most rows have a few counts above 254, so
//            one width for a whole block would double its size.
//   raw rows (`wide_count == kRawRow`) have no codes: all values are wide. The writer chooses the
//            smaller form.
//   in place: a row whose values stay where they are (`wide_count == kInPlaceRow`). Its record is
//            PackedRowHeader | address of the values | indices. It reads as a raw row.
//
// Values are exact for every type: -0.0, NaN and fractions escape. Duplicated columns are kept.
// This header is the contract between decoders (format/) and the assembly of batches (kernel/,
// pipeline/).

namespace penstock::kernel {

inline constexpr uint32_t kRawRow = 0xFFFFFFFFU;
/// Only records of a RowReader (format/row_reader.h) may be of this form.
inline constexpr uint32_t kInPlaceRow = 0xFFFFFFFEU;

struct PackedRowHeader {
  uint32_t nnz = 0;
  uint32_t wide_count = 0;  ///< escapes, or kRawRow
};

struct PackedRowLayout {
  uint8_t index_bytes = 2;  ///< 2 for at most 65,536 selected columns, else 4
  DataType value_type = DataType::kFloat32;
  uint8_t value_bytes = 4;

  size_t record_bytes(uint32_t nnz, uint32_t wide_count) const noexcept {
    const size_t wide = wide_count == kRawRow ? nnz : wide_count;
    const size_t codes = wide_count == kRawRow ? 0 : nnz;
    const size_t size =
        sizeof(PackedRowHeader) + wide * value_bytes + size_t{nnz} * index_bytes + codes;
    return (size + 7) & ~size_t{7};
  }
};

/// Bytes of the record of a row in place.
inline size_t in_place_record_bytes(const PackedRowLayout& layout, uint32_t nnz) noexcept {
  const size_t size =
      sizeof(PackedRowHeader) + sizeof(const std::byte*) + size_t{nnz} * layout.index_bytes;
  return (size + 7) & ~size_t{7};
}

/// Writes all but the indices, and returns where these belong.
std::byte* start_in_place_record(std::byte* record, uint32_t nnz, const std::byte* values) noexcept;

/// The form that the row has for a reader of its record: kRawRow if it is in place.
PackedRowHeader header_of(const std::byte* record) noexcept;

/// Pointers to the parts of a record.
struct PackedRowView {
  uint32_t nnz = 0;
  uint32_t wide_count = 0;  ///< escapes, or kRawRow
  const std::byte* wide = nullptr;
  const std::byte* indices = nullptr;
  const uint8_t* codes = nullptr;  ///< null for raw rows

  static PackedRowView of(const std::byte* record, const PackedRowLayout& layout) noexcept;
};

}  // namespace penstock::kernel
