#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "base/vector_path.h"
#include "format/row_file/bit_packing.h"
#include "format/row_file/block_writer.h"
#include "kernel/packed_row.h"

// A row as it is stored: about 1.2 bytes a non-zero of real counts. docs/reference/pack-format.md
// has the layout; in short,
//
//   checksum | form, nnz, … | gaps between columns | values
//
// Gaps and values are stored in blocks of 128 numbers, bit-packed at a width that fits most numbers
// of the block ("patched frame of reference"). The few larger ones store their place and high bits
// separately. A value that is not an integer from 1 to 2^31 keeps its exact bits; a row of
// fractions keeps all exact bits.
//
//   RowEncoder encoder(layout, column_count);        one a thread
//   encoder.append(record, bytes);                   a packed row (kernel/packed_row.h) to bytes
//   const RowDecoder decoder(layout, column_count);  immutable, any thread
//   const RowShape shape = decoder.shape(stored);
//   decoder.decode(stored, shape, destination);      record_bytes(shape.nnz, shape.wide_count)
//
// Stored bytes are not trusted: decode() returns a valid packed row (columns in order and inside
// the matrix) or throws CorruptData. An empty row has no bytes.

namespace penstock::format::pack {

/// The length of a record is a multiple of this many bytes.
inline constexpr size_t kRecordAlignment = 4;

/// Bytes behind a record that decode() may read.
inline constexpr size_t kRecordSlack = kBitSlack;

struct RowShape {
  uint32_t nnz = 0;
  uint32_t wide_count = 0;  ///< of the packed row
};

class RowEncoder {
 public:
  /// `layout`: of the packed rows, which have all `column_count` columns.
  RowEncoder(const kernel::PackedRowLayout& layout, uint64_t column_count,
             VectorPath path = best_vector_path());

  /// Appends the record of a packed row. Returns its length.
  size_t append(const std::byte* packed_row, std::vector<std::byte>& out);

 private:
  template <typename Index>
  bool append_columns(const kernel::PackedRowView& row);
  template <typename Index>
  bool append_gaps(const kernel::PackedRowView& row, Index step);
  bool append_counts(const kernel::PackedRowView& row, uint32_t& wide_count);
  void append_numbers(const std::array<uint32_t, kBlockNumbers>& numbers, size_t count,
                      const BlockMask& escapes);
  void append_raw(const kernel::PackedRowView& row);

  kernel::PackedRowLayout layout_;
  std::vector<std::byte> body_;     // of the record being encoded
  std::vector<std::byte> escapes_;  // exact values
  BlockWriter gaps_;
  BlockWriter counts_;
};

class RowDecoder {
 public:
  RowDecoder(const kernel::PackedRowLayout& layout, uint64_t column_count,
             VectorPath path = best_vector_path());

  const kernel::PackedRowLayout& layout() const noexcept { return layout_; }

  /// Whether the checksum matches the bytes.
  bool intact(std::span<const std::byte> stored) const noexcept;

  RowShape shape(std::span<const std::byte> stored) const;

  /// `shape`: the result of shape(). kRecordSlack bytes behind `stored` must be readable.
  void decode(std::span<const std::byte> stored, const RowShape& shape,
              std::byte* destination) const;

 private:
  struct Header;
  Header read_header(ByteReader& reader) const;
  template <typename Index>
  void decode_columns(ByteReader& reader, uint32_t nnz, bool repeats, std::byte* out) const;

  kernel::PackedRowLayout layout_;
  uint64_t column_count_;
  VectorPath path_;
};

}  // namespace penstock::format::pack
