#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "base/memory/buffer.h"
#include "format/tiledb/schema/array_schema.h"

// Minimum bounding rectangles of a sparse fragment's data tiles: the leaf level of its R-tree,
// flat. Source: format_spec/fragment.md, R-Tree; of the upper levels only the length is checked.
//
// Boxes of fixed length stay in the inflated buffer, so there is never a second copy. A tile costs
// the bytes of its box and a ninth for the levels above: 36 for two int64 dimensions, so 180 MB for
// the five million tiles of the largest Census array. Boxes with variable-length (string)
// dimensions are copied, at 16 more bytes for each tile and such dimension. Immutable after parse;
// any thread.

namespace penstock::format::tiledb {

class TileBounds {
 public:
  TileBounds() = default;

  /// Parses the inflated R-tree and keeps it. `tile_count` is the footer's. Throws `CorruptData` if
  /// the number of leaves differs or the minimum of a fixed-length box exceeds its maximum.
  static TileBounds parse(Buffer bytes, std::span<const Dimension> dimensions, uint64_t tile_count);

  uint64_t tile_count() const noexcept { return tile_count_; }
  size_t dimension_count() const noexcept { return columns_.size(); }

  /// Bounds of a tile along a fixed-length dimension; T has the dimension's size.
  template <typename T>
  T min(uint64_t tile, size_t dimension) const {
    return load<T>(fixed(tile, dimension));
  }
  template <typename T>
  T max(uint64_t tile, size_t dimension) const {
    return load<T>(fixed(tile, dimension) + sizeof(T));
  }

  /// Bounds along an integer, date or time dimension of any width, widened. Unsigned 64-bit values
  /// keep their bits.
  int64_t min_int(uint64_t tile, size_t dimension) const;
  int64_t max_int(uint64_t tile, size_t dimension) const;

  /// Bounds along a variable-length dimension.
  std::string_view min_string(uint64_t tile, size_t dimension) const;
  std::string_view max_string(uint64_t tile, size_t dimension) const;

  /// True if every dimension is a 64-bit integer, date or time. `int64_rows` then has min0, max0,
  /// min1, max1, … for each tile; inner loops should use it.
  bool all_int64() const noexcept { return all_int64_; }
  std::span<const int64_t> int64_rows() const noexcept {
    return {reinterpret_cast<const int64_t*>(rows()), tile_count_ * row_bytes_ / sizeof(int64_t)};
  }

  size_t memory_bytes() const noexcept;

 private:
  struct Column {
    DataType type = DataType::kInt64;
    bool var_length = false;
    size_t offset = 0;     // of its pair within a row, fixed length only
    size_t var_index = 0;  // among the variable-length dimensions
  };
  struct VarPlace {
    uint64_t start = 0;  // of the minimum in var_bytes_; the maximum follows it
    uint32_t min_bytes = 0, max_bytes = 0;
  };

  void read_leaves(ByteReader& reader, Buffer bytes);
  void read_leaves_with_strings(ByteReader& reader);
  void check() const;
  const VarPlace& var_place(uint64_t tile, size_t dimension) const {
    return var_places_[tile * var_dimension_count_ + columns_[dimension].var_index];
  }
  const std::byte* rows() const noexcept { return rows_.data() + rows_begin_; }
  const std::byte* fixed(uint64_t tile, size_t dimension) const {
    return rows() + tile * row_bytes_ + columns_[dimension].offset;
  }
  template <typename T>
  static T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }

  std::vector<Column> columns_;
  uint64_t tile_count_ = 0;
  size_t row_bytes_ = 0;  // fixed-length parts of a box
  bool all_int64_ = false;
  Buffer rows_;  // the whole R-tree if all dimensions have fixed length
  size_t rows_begin_ = 0;
  size_t var_dimension_count_ = 0;
  std::vector<VarPlace> var_places_;  // tile-major
  std::vector<std::byte> var_bytes_;
};

}  // namespace penstock::format::tiledb
