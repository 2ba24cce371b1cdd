#include "format/tiledb/reader/array_reader_cells.h"

#include <penstock/error.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/concat.h"
#include "io/range_coalescing.h"

namespace penstock::format::tiledb {
namespace {

/// No writer makes tiles of this size; a longer length is treated as damage.
constexpr uint64_t kMaxTileBytes = uint64_t{1} << 33;

/// Stored tiles of one file of a field.
class StoredTiles {
 public:
  StoredTiles(const io::Store& store, FragmentMetadata& fragment, const FragmentField& field,
              TilePart part, std::span<const uint64_t> tiles) {
    fragment.load_tile_offsets(field, part);
    std::vector<io::ByteRange> wanted;
    wanted.reserve(tiles.size());
    for (const uint64_t tile : tiles) wanted.push_back(fragment.tile_range(field, part, tile));
    coalesced_ = io::coalesce(wanted);
    const std::string path = fragment.file_path(field, part);
    // Lengths come from metadata, so they are compared with the file before memory is allocated.
    const uint64_t size = coalesced_.reads.empty() ? 0 : store.size_bytes(path);
    for (const io::ByteRange& read : coalesced_.reads) {
      if (read.end() > size) {
        throw CorruptData(concat("tiles lie at ", read.offset, " to ", read.end(), " of a file of ",
                                 size, " bytes, ", path));
      }
      buffers_.emplace_back(static_cast<size_t>(read.length));
      store.read(path, read.offset, buffers_.back().span());
    }
    for (const io::ByteRange& range : wanted) lengths_.push_back(range.length);
  }

  std::span<const std::byte> tile(size_t index) const {
    if (lengths_[index] == 0) return {};
    const io::CoalescedPiece& piece = coalesced_.pieces[index];
    return buffers_[piece.read].span().subspan(static_cast<size_t>(piece.offset),
                                               static_cast<size_t>(lengths_[index]));
  }

 private:
  io::CoalescedReads coalesced_;
  std::vector<Buffer> buffers_;
  std::vector<uint64_t> lengths_;
};

/// Decodes the tiles of one field of a fragment into one column.
class CellReader {
 public:
  CellReader(const io::Store& store, FragmentMetadata& fragment, const FragmentField& field,
             std::span<const uint64_t> tiles, codec::DecodeScratch& scratch)
      : store_(store),
        fragment_(fragment),
        field_(field),
        tiles_(tiles),
        scratch_(scratch),
        version_(fragment.footer().format_version) {}

  Column read() {
    Column column = empty_column(field_.name, field_.type, field_.cell_val_num);
    column.row_count = count_cells(fragment_, tiles_);
    if (!field_.var_length()) {
      read_fixed(column);
    } else if (field_.filters->stores_string_offsets(field_.type, true)) {
      read_strings_with_offsets(column);
    } else {
      read_variable(column);
    }
    if (field_.nullable) read_validity(column);
    return column;
  }

 private:
  StoredTiles stored(TilePart part) const {
    return StoredTiles(store_, fragment_, field_, part, tiles_);
  }

  template <typename Body>
  void for_each_tile(Body&& body) {
    for (size_t index = 0; index < tiles_.size(); ++index) {
      with_place([&] { body(index, fragment_.tile_cells(tiles_[index])); },
                 [&] {
                   return "tile " + std::to_string(tiles_[index]) + " of field '" + field_.name +
                          "', fragment " + fragment_.location().path;
                 });
    }
  }

  /// Decodes a tile that must hold exactly `bytes`; the result is valid until the next call. Until
  /// then the length is only a claim: its memory is not written to, and no column grows.
  std::span<const std::byte> decode(std::span<const std::byte> tile,
                                    const codec::FilterPipeline& filters, DataType type,
                                    uint64_t bytes, uint64_t cell_bytes = 0) {
    filters.expect_readable();
    const uint64_t held = filters.decoded_bytes(tile);
    if (held != bytes || bytes > kMaxTileBytes) {
      throw CorruptData(concat("the tile holds ", held, " bytes, not ", bytes));
    }
    decoded_.resize_discard(static_cast<size_t>(bytes));
    filters.decode(tile, type, version_, decoded_.span(), scratch_, cell_bytes);
    return decoded_.span();
  }

  static void append(std::span<const std::byte> bytes, Column& column) {
    column.data.insert(column.data.end(), bytes.begin(), bytes.end());
  }

  void read_fixed(Column& column) {
    const StoredTiles data = stored(TilePart::kData);
    const size_t width = field_.cell_bytes();
    for_each_tile([&](size_t index, uint64_t cells) {
      append(decode(data.tile(index), *field_.filters, field_.type,
                    checked_mul<uint64_t>(cells, width, "tile bytes"), width),
             column);
    });
    if (!column.is_variable()) return;
    column.offsets.reserve(column.row_count + 1);
    for (uint64_t row = 0; row < column.row_count; ++row) {
      column.offsets.push_back((row + 1) * width);
    }
  }

  void read_variable(Column& column) {
    const StoredTiles starts = stored(TilePart::kData);
    const StoredTiles values = stored(TilePart::kVar);
    fragment_.load_var_tile_sizes(field_);
    for_each_tile([&](size_t index, uint64_t cells) {
      const uint64_t length = fragment_.var_tile_bytes(field_, tiles_[index]);
      const auto bytes =
          decode(starts.tile(index), fragment_.schema().offsets_filters, DataType::kUInt64,
                 checked_mul<uint64_t>(cells, sizeof(uint64_t), "offset bytes"));
      add_offsets({reinterpret_cast<const uint64_t*>(bytes.data()), static_cast<size_t>(cells)},
                  column.data.size(), length, column);
      append(decode(values.tile(index), *field_.filters, field_.type, length), column);
    });
  }

  void read_strings_with_offsets(Column& column) {
    const StoredTiles values = stored(TilePart::kVar);
    fragment_.load_var_tile_sizes(field_);
    Buffer characters;
    std::vector<uint64_t> starts;
    for_each_tile([&](size_t index, uint64_t cells) {
      starts.clear();
      field_.filters->decode_strings(values.tile(index), field_.type, version_, characters, starts,
                                     scratch_,
                                     {cells, fragment_.var_tile_bytes(field_, tiles_[index])});
      add_offsets(starts, column.data.size(), characters.size(), column);
      append(characters.span(), column);
    });
  }

  /// Appends the ends of a tile's cells; `starts` count from the tile's first byte.
  static void add_offsets(std::span<const uint64_t> starts, uint64_t begin, uint64_t length,
                          Column& column) {
    for (size_t cell = 0; cell < starts.size(); ++cell) {
      const uint64_t start = starts[cell];
      const uint64_t end = cell + 1 < starts.size() ? starts[cell + 1] : length;
      if ((cell == 0 && start != 0) || start > end || end > length) {
        throw CorruptData(
            concat("cell ", cell, " lies at ", start, " to ", end, " of ", length, " bytes"));
      }
      column.offsets.push_back(begin + end);
    }
  }

  void read_validity(Column& column) {
    const StoredTiles data = stored(TilePart::kValidity);
    for_each_tile([&](size_t index, uint64_t cells) {
      for (const std::byte valid :
           decode(data.tile(index), fragment_.schema().validity_filters, DataType::kUInt8, cells)) {
        column.validity.push_back(valid != std::byte{0} ? 1 : 0);
      }
    });
  }

  const io::Store& store_;
  FragmentMetadata& fragment_;
  const FragmentField& field_;
  std::span<const uint64_t> tiles_;
  codec::DecodeScratch& scratch_;
  Buffer decoded_;
  uint32_t version_;
};

}  // namespace

bool has_variable_cells(DataType type, uint32_t cell_val_num) {
  return cell_val_num != 1 || is_string(type) || type == DataType::kBlob ||
         type == DataType::kGeomWkb || type == DataType::kGeomWkt;
}

Column empty_column(const std::string& name, DataType type, uint32_t cell_val_num) {
  Column column;
  column.name = name;
  column.type = type;
  if (has_variable_cells(type, cell_val_num)) column.offsets.assign(1, 0);
  return column;
}

uint64_t count_cells(const FragmentMetadata& fragment, std::span<const uint64_t> tiles) {
  uint64_t cells = 0;
  for (const uint64_t tile : tiles) {
    cells = checked_add(cells, fragment.tile_cells(tile), "cells of a fragment");
  }
  return cells;
}

Column read_cells(const io::Store& store, FragmentMetadata& fragment, const FragmentField& field,
                  std::span<const uint64_t> tiles, codec::DecodeScratch& scratch) {
  return CellReader(store, fragment, field, tiles, scratch).read();
}

Column fill_cells(const Attribute& attribute, uint64_t count) {
  Column column = empty_column(attribute.name, attribute.type, attribute.cell_val_num);
  column.row_count = count;
  const auto& fill = attribute.fill_value;
  if (!attribute.var_length() && fill.size() != attribute.cell_bytes()) {
    throw CorruptData(concat("attribute '", attribute.name, "' of ", attribute.cell_bytes(),
                             " bytes has a fill value of ", fill.size()));
  }
  column.data.reserve(count * fill.size());
  for (uint64_t row = 0; row < count; ++row) {
    column.data.insert(column.data.end(), fill.begin(), fill.end());
    if (column.is_variable()) column.offsets.push_back(column.data.size());
  }
  if (attribute.nullable) column.validity.assign(count, attribute.fill_validity != 0 ? 1 : 0);
  return column;
}

FieldCells view_cells(const Column& column) {
  FieldCells cells;
  cells.data = column.data;
  cells.offsets = column.offsets;
  cells.validity = column.validity;
  return cells;
}

}  // namespace penstock::format::tiledb
