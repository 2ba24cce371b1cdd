#include "format/tiledb/fragment/fragment_footer.h"

#include <penstock/error.h>

#include <cstring>

#include "base/checked.h"
#include "base/concat.h"
#include "format/tiledb/generic_tile.h"

namespace penstock::format::tiledb {
namespace {

constexpr uint32_t kDeleteMetadataVersion = 15;
constexpr uint32_t kTimestampsVersion = 14;

std::vector<uint64_t> read_list(ByteReader& reader, size_t count, std::string_view what) {
  const auto bytes = reader.take(checked_mul<uint64_t>(count, 8, what), what);
  std::vector<uint64_t> values(count);
  if (count != 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// An unsigned type holds the distance of any two int64 or uint64 coordinates without overflow.
uint64_t distance(int64_t from, int64_t to) {
  return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}

bool less(DataType type, int64_t a, int64_t b) {
  if (type == DataType::kUInt64) return static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
  return a < b;
}

// Space tiles that the non-empty domain touches along one dimension.
uint64_t dense_tiles(const Dimension& dimension, const Range& range) {
  Dimension bounds = dimension;  // reads a range as it reads a domain
  bounds.domain = range.bytes;
  const int64_t low = bounds.domain_min();
  const int64_t high = bounds.domain_max();
  if (less(dimension.type, high, low) || less(dimension.type, low, dimension.domain_min()) ||
      less(dimension.type, dimension.domain_max(), high)) {
    throw CorruptData(concat("non-empty domain of dense fragment is out of the domain along ",
                             dimension.name, ": [", low, ", ", high, "]"));
  }
  const auto extent = static_cast<uint64_t>(dimension.extent());
  return distance(dimension.domain_min(), high) / extent -
         distance(dimension.domain_min(), low) / extent + 1;
}

void set_dense_tile_count(FragmentFooter& footer) {
  footer.tile_count = footer.non_empty_domain.empty() ? 0 : 1;
  for (size_t d = 0; d < footer.non_empty_domain.size(); ++d) {
    footer.tile_count = checked_mul(
        footer.tile_count, dense_tiles(footer.schema->dimensions[d], footer.non_empty_domain[d]),
        "tiles of a dense fragment");
  }
}

void read_tile_counts(FragmentFooter& footer, ByteReader& reader) {
  const auto sparse_tiles = reader.read<uint64_t>("number of sparse tiles");
  footer.last_tile_cells = reader.read<uint64_t>("cells of the last tile");
  if (footer.dense) {
    footer.cells_per_tile = footer.schema->cells_per_space_tile();
    footer.last_tile_cells = footer.cells_per_tile;
    set_dense_tile_count(footer);
  } else {
    footer.tile_count = sparse_tiles;
    footer.cells_per_tile = footer.schema->capacity;
    if (footer.last_tile_cells > footer.cells_per_tile) {
      throw CorruptData(concat("last tile has ", footer.last_tile_cells, " cells, the capacity is ",
                               footer.cells_per_tile));
    }
  }
  checked_mul(footer.tile_count, footer.cells_per_tile, "cells of a fragment");
}

void read_file_sizes(FragmentFooter& footer, ByteReader& reader) {
  const ArraySchema& schema = *footer.schema;
  footer.field_count = schema.attributes.size() + 1 + schema.dimensions.size() +
                       (footer.has_timestamps ? 1 : 0) + (footer.has_delete_metadata ? 2 : 0);
  footer.file_bytes = read_list(reader, footer.field_count, "file sizes");
  footer.file_var_bytes = read_list(reader, footer.field_count, "variable file sizes");
  footer.file_validity_bytes = read_list(reader, footer.field_count, "validity file sizes");
}

void read_generic_tile_offsets(FragmentFooter& footer, ByteReader& reader) {
  const size_t count = footer.field_count;
  footer.rtree_offset = reader.read<uint64_t>("R-tree offset");
  footer.tile_offsets_offset = read_list(reader, count, "tile offsets' offsets");
  footer.tile_var_offsets_offset = read_list(reader, count, "variable tile offsets' offsets");
  footer.tile_var_sizes_offset = read_list(reader, count, "variable tile sizes' offsets");
  footer.tile_validity_offsets_offset = read_list(reader, count, "validity offsets' offsets");
  // Tile minima, maxima, sums and null counts: not used.
  if (footer.format_version >= 11) {
    footer.unused_offsets = read_list(reader, 4 * count, "tile metadata offsets");
  }
  if (footer.format_version >= 12) reader.skip(8, "fragment metadata offset");
  if (footer.format_version >= 16) {
    footer.processed_conditions_offset = reader.read<uint64_t>("processed conditions offset");
  }
}

void skip_optional_sections(ByteReader& reader) {
  const auto count = reader.read<uint32_t>("number of optional sections");
  reader.expect_items(count, 12, "optional sections");
  for (uint32_t i = 0; i < count; ++i) {
    reader.skip(8, "optional section identifier");
    reader.skip(reader.read<uint32_t>("optional section size"), "optional section");
  }
}

ArraySchemaPtr find_schema(const ArraySchemas& schemas, std::string_view name) {
  const auto found = schemas.find(name);
  if (found != schemas.end()) return found->second;
  throw CorruptData("fragment names an array schema that is not there: " + std::string(name));
}

}  // namespace

FragmentFooter FragmentFooter::parse(ByteReader& reader, const ArraySchemas& schemas) {
  FragmentFooter footer;
  footer.format_version = reader.read<uint32_t>("footer version");
  if (footer.format_version < kOldestFragmentVersion ||
      footer.format_version > kNewestFormatVersion) {
    throw Unsupported(concat("fragment has format version ", footer.format_version, "; read are ",
                             kOldestFragmentVersion, " to ", kNewestFormatVersion,
                             ". An older fragment becomes readable by consolidating the array"));
  }
  const auto name_bytes = reader.read<uint64_t>("schema name length");
  footer.schema = find_schema(schemas, reader.take_string(name_bytes, "schema name"));
  footer.dense = reader.read<uint8_t>("dense flag") != 0;
  if (footer.dense && !footer.schema->dense()) {
    throw CorruptData("dense fragment in a sparse array");
  }
  if (reader.read<uint8_t>("null non-empty domain flag") == 0) {
    footer.non_empty_domain = read_nd_range(reader, footer.schema->dimensions);
  }
  read_tile_counts(footer, reader);
  if (footer.format_version >= kTimestampsVersion) {
    footer.has_timestamps = reader.read<uint8_t>("timestamps flag") != 0;
  }
  if (footer.format_version >= kDeleteMetadataVersion) {
    footer.has_delete_metadata = reader.read<uint8_t>("delete metadata flag") != 0;
  }
  read_file_sizes(footer, reader);
  read_generic_tile_offsets(footer, reader);
  if (footer.format_version >= 23) skip_optional_sections(reader);
  return footer;
}

FragmentFooter read_fragment_footer(const io::Store& store, const std::string& path,
                                    const ArraySchemas& schemas) {
  const auto read = [&] {
    const uint64_t file_bytes = store.size_bytes(path);
    uint64_t footer_bytes = 0;
    if (file_bytes < sizeof(footer_bytes)) {
      throw CorruptData(concat("truncated: fragment metadata of ", file_bytes, " bytes"));
    }
    const uint64_t length_offset = file_bytes - sizeof(footer_bytes);
    store.read(path, length_offset, std::as_writable_bytes(std::span(&footer_bytes, 1)));
    if (footer_bytes > length_offset) {
      throw CorruptData(concat("fragment footer of ", footer_bytes,
                               " bytes does not fit a file of ", file_bytes));
    }
    Buffer bytes(footer_bytes);
    store.read(path, length_offset - footer_bytes, bytes.span());
    ByteReader reader(bytes.span());
    FragmentFooter footer = FragmentFooter::parse(reader, schemas);
    if (!reader.empty()) {
      throw CorruptData(concat("fragment footer has bytes left over: ", reader.remaining()));
    }
    return footer;
  };
  return with_place(read, [&] { return path; });
}

}  // namespace penstock::format::tiledb
