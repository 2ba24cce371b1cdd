#include "format/tiledb/fragment/tile_bounds.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "base/types/visit_type.h"
#include "format/tiledb/integer_value.h"

namespace penstock::format::tiledb {
namespace {

bool pair_ascends(DataType type, const std::byte* pair) {
  return visit_number(stored_type(type), [&](auto identity) {
    typename decltype(identity)::type low, high;
    std::memcpy(&low, pair, sizeof(low));
    std::memcpy(&high, pair + sizeof(high), sizeof(high));
    return !(low > high);  // accepts a fragment with NaN bounds
  });
}

bool is_orderable(DataType type) {
  return is_integer(type) || is_floating(type) || is_datetime(type) || is_time(type) ||
         type == DataType::kBool;
}

// Skips the bytes of `count` boxes. Walks them if a dimension has variable length.
void skip_level(ByteReader& reader, uint64_t count, std::span<const Dimension> dimensions,
                size_t row_bytes, size_t var_count) {
  if (var_count == 0) {
    reader.skip(checked_mul<uint64_t>(count, row_bytes, "R-tree level"), "R-tree level");
    return;
  }
  for (uint64_t box = 0; box < count; ++box) {
    for (const Dimension& dimension : dimensions) {
      if (dimension.var_length()) {
        const auto length = reader.read<uint64_t>("MBR range length");
        reader.skip(8, "MBR minimum length");
        reader.skip(length, "MBR range");
      } else {
        reader.skip(2 * dimension.cell_bytes(), "MBR range");
      }
    }
  }
}

}  // namespace

TileBounds TileBounds::parse(Buffer bytes, std::span<const Dimension> dimensions,
                             uint64_t tile_count) {
  TileBounds bounds;
  bounds.tile_count_ = tile_count;
  bounds.all_int64_ = true;
  for (const Dimension& dimension : dimensions) {
    Column column;
    column.type = dimension.type;
    column.var_length = dimension.var_length();
    if (column.var_length) {
      column.var_index = bounds.var_dimension_count_++;
    } else {
      column.offset = bounds.row_bytes_;
      bounds.row_bytes_ += 2 * dimension.cell_bytes();
    }
    bounds.all_int64_ = bounds.all_int64_ && !column.var_length && !is_floating(column.type) &&
                        is_orderable(column.type) && dimension.cell_bytes() == 8;
    bounds.columns_.push_back(column);
  }

  ByteReader reader(bytes.span());
  reader.skip(4, "R-tree fanout");
  const auto level_count = reader.read<uint32_t>("R-tree levels");
  if (level_count == 0) {
    if (tile_count != 0) throw CorruptData("R-tree has no levels");
    return bounds;
  }
  for (uint32_t level = 0; level + 1 < level_count; ++level) {
    const auto count = reader.read<uint64_t>("R-tree level size");
    const uint64_t least_bytes = bounds.row_bytes_ + 16 * bounds.var_dimension_count_;
    reader.expect_items(count, least_bytes, "R-tree level");
    skip_level(reader, count, dimensions, bounds.row_bytes_, bounds.var_dimension_count_);
  }
  const auto leaf_count = reader.read<uint64_t>("R-tree leaves");
  if (leaf_count != tile_count) {
    throw CorruptData(concat("R-tree has ", leaf_count, " leaves for ", tile_count, " tiles"));
  }
  bounds.read_leaves(reader, std::move(bytes));  // the bytes stay where they are
  if (!reader.empty()) {
    throw CorruptData(concat("R-tree has bytes left over: ", reader.remaining()));
  }
  bounds.check();
  return bounds;
}

void TileBounds::read_leaves(ByteReader& reader, Buffer bytes) {
  reader.expect_items(tile_count_, row_bytes_ + 16 * var_dimension_count_, "R-tree leaves");
  if (var_dimension_count_ != 0) {
    read_leaves_with_strings(reader);
    return;
  }
  // If all_int64_ is set, all lengths before are multiples of 8, so int64_rows is aligned.
  rows_begin_ = bytes.size() - reader.remaining();
  reader.skip(tile_count_ * row_bytes_, "R-tree leaves");
  rows_ = std::move(bytes);
}

void TileBounds::read_leaves_with_strings(ByteReader& reader) {
  rows_.resize_discard(tile_count_ * row_bytes_);
  var_places_.reserve(tile_count_ * var_dimension_count_);
  for (uint64_t tile = 0; tile < tile_count_; ++tile) {
    for (const Column& column : columns_) {
      if (column.var_length) {
        const auto length = reader.read<uint64_t>("MBR range length");
        const auto min_length = reader.read<uint64_t>("MBR minimum length");
        const auto range = reader.take(length, "MBR range");
        if (min_length > length) {
          throw CorruptData(
              concat("MBR minimum of ", min_length, " bytes is longer than its range of ", length));
        }
        var_places_.push_back({var_bytes_.size(),
                               checked_cast<uint32_t>(min_length, "MBR minimum length"),
                               checked_cast<uint32_t>(length - min_length, "MBR maximum length")});
        var_bytes_.insert(var_bytes_.end(), range.begin(), range.end());
      } else {
        const size_t pair_bytes = 2 * size_of(column.type);
        const auto pair = reader.take(pair_bytes, "MBR range");
        std::memcpy(rows_.data() + tile * row_bytes_ + column.offset, pair.data(), pair_bytes);
      }
    }
  }
  var_bytes_.shrink_to_fit();
}

void TileBounds::check() const {
  for (size_t d = 0; d < columns_.size(); ++d) {
    const Column& column = columns_[d];
    if (column.var_length || !is_orderable(column.type)) continue;
    for (uint64_t tile = 0; tile < tile_count_; ++tile) {
      if (!pair_ascends(column.type, fixed(tile, d))) {
        throw CorruptData(
            concat("MBR minimum exceeds its maximum along dimension ", d, ", tile ", tile));
      }
    }
  }
}

int64_t TileBounds::min_int(uint64_t tile, size_t dimension) const {
  return read_integer(columns_[dimension].type, fixed(tile, dimension));
}

int64_t TileBounds::max_int(uint64_t tile, size_t dimension) const {
  const DataType type = columns_[dimension].type;
  return read_integer(type, fixed(tile, dimension) + size_of(type));
}

std::string_view TileBounds::min_string(uint64_t tile, size_t dimension) const {
  const VarPlace& place = var_place(tile, dimension);
  return {reinterpret_cast<const char*>(var_bytes_.data()) + place.start, place.min_bytes};
}

std::string_view TileBounds::max_string(uint64_t tile, size_t dimension) const {
  const VarPlace& place = var_place(tile, dimension);
  return {reinterpret_cast<const char*>(var_bytes_.data()) + place.start + place.min_bytes,
          place.max_bytes};
}

size_t TileBounds::memory_bytes() const noexcept {
  return rows_.capacity() + var_places_.capacity() * sizeof(VarPlace) + var_bytes_.capacity();
}

}  // namespace penstock::format::tiledb
