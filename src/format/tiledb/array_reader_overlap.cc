#include "format/tiledb/array_reader_overlap.h"

#include <penstock/error.h>

#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/parallel.h"
#include "format/tiledb/array_reader_cells.h"

namespace penstock::format::tiledb {
namespace {

template <typename T>
bool overlap_as(const Range& a, const Range& b) {
  return a.min_as<T>() <= b.max_as<T>() && b.min_as<T>() <= a.max_as<T>();
}

template <typename Body>
bool with_coordinate_type(DataType type, Body&& body) {
  switch (type) {
    case DataType::kInt8:
      return body(int8_t{});
    case DataType::kUInt8:
      return body(uint8_t{});
    case DataType::kInt16:
      return body(int16_t{});
    case DataType::kUInt16:
      return body(uint16_t{});
    case DataType::kInt32:
      return body(int32_t{});
    case DataType::kUInt32:
      return body(uint32_t{});
    case DataType::kUInt64:
      return body(uint64_t{});
    case DataType::kFloat32:
      return body(float{});
    case DataType::kFloat64:
      return body(double{});
    default:
      if (type == DataType::kInt64 || is_datetime(type) || is_time(type)) return body(int64_t{});
  }
  throw Unsupported("a dimension of type " + std::string(name_of(type)));
}

struct ComparedTile {
  size_t fragment = 0;
  uint64_t tile = 0;
};

/// The coordinates of a tile's cells, each as one string of bytes, and when they were written.
struct TileKeys {
  std::vector<char> bytes;
  std::vector<size_t> ends;
  std::vector<uint64_t> timestamps;  // empty: all at the fragment's first time

  std::string_view key(size_t cell) const {
    const size_t begin = cell == 0 ? 0 : ends[cell - 1];
    return {bytes.data() + begin, ends[cell] - begin};
  }
};

TileKeys read_keys(const io::Store& store, const ArraySchema& schema, FragmentMetadata& fragment,
                   uint64_t tile) {
  codec::DecodeScratch scratch;
  std::vector<Column> coordinates;
  for (const Dimension& dimension : schema.dimensions) {
    coordinates.push_back(
        read_cells(store, fragment, fragment.field(dimension.name), {&tile, 1}, scratch));
  }
  TileKeys keys;
  const uint64_t cells = fragment.tile_cells(tile);
  for (uint64_t cell = 0; cell < cells; ++cell) {
    for (const Column& column : coordinates) {
      std::string_view value;
      if (column.is_variable()) {
        value = column.string_at(cell);
        const uint64_t length = value.size();  // so that ("a", "bc") is not ("ab", "c")
        const auto* at = reinterpret_cast<const char*>(&length);
        keys.bytes.insert(keys.bytes.end(), at, at + sizeof(length));
      } else {
        const size_t width = size_of(column.type);
        value = {reinterpret_cast<const char*>(column.data.data()) + cell * width, width};
      }
      keys.bytes.insert(keys.bytes.end(), value.begin(), value.end());
    }
    keys.ends.push_back(keys.bytes.size());
  }
  if (fragment.has_timestamps()) {
    const Column column =
        read_cells(store, fragment, fragment.field(kTimestampsField), {&tile, 1}, scratch);
    const auto values = column.values<uint64_t>();
    keys.timestamps.assign(values.begin(), values.end());
  }
  return keys;
}

std::vector<ComparedTile> compared_tiles(
    const ArraySchema& schema, std::span<const std::shared_ptr<FragmentMetadata>> fragments,
    std::span<const uint8_t> overlapping) {
  std::vector<ComparedTile> tiles;
  for (size_t f = 0; f < fragments.size(); ++f) {
    if (overlapping[f] == 0) continue;
    std::vector<const NDRange*> others;
    for (size_t other = 0; other < fragments.size(); ++other) {
      const NDRange& box = fragments[other]->footer().non_empty_domain;
      if (other != f && overlapping[other] != 0 &&
          boxes_overlap(schema.dimensions, fragments[f]->footer().non_empty_domain, box)) {
        others.push_back(&box);
      }
    }
    fragments[f]->load_tile_bounds();
    for (uint64_t tile = 0; tile < fragments[f]->tile_count(); ++tile) {
      bool compared = fragments[f]->has_timestamps();
      for (size_t i = 0; i < others.size() && !compared; ++i) {
        compared = tile_touches(*fragments[f], schema.dimensions, tile, *others[i]);
      }
      if (compared) tiles.push_back({f, tile});
    }
  }
  return tiles;
}

}  // namespace

bool boxes_overlap(std::span<const Dimension> dimensions, const NDRange& a, const NDRange& b) {
  if (a.empty() || b.empty()) return false;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const bool shared =
        dimensions[d].var_length()
            ? a[d].min_string() <= b[d].max_string() && b[d].min_string() <= a[d].max_string()
            : with_coordinate_type(dimensions[d].type, [&](auto zero) {
                return overlap_as<decltype(zero)>(a[d], b[d]);
              });
    if (!shared) return false;
  }
  return true;
}

bool tile_touches(const FragmentMetadata& fragment, std::span<const Dimension> dimensions,
                  uint64_t tile, const NDRange& box) {
  const TileBounds& bounds = fragment.tile_bounds();
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const bool shared = dimensions[d].var_length()
                            ? bounds.min_string(tile, d) <= box[d].max_string() &&
                                  box[d].min_string() <= bounds.max_string(tile, d)
                            : with_coordinate_type(dimensions[d].type, [&](auto zero) {
                                using T = decltype(zero);
                                return bounds.min<T>(tile, d) <= box[d].max_as<T>() &&
                                       box[d].min_as<T>() <= bounds.max<T>(tile, d);
                              });
    if (!shared) return false;
  }
  return true;
}

ReplacedCells find_replaced_cells(const io::Store& store, const ArraySchema& schema,
                                  std::span<const std::shared_ptr<FragmentMetadata>> fragments,
                                  std::span<const uint8_t> overlapping, const TimeRange& range,
                                  unsigned threads) {
  const std::vector<ComparedTile> tiles = compared_tiles(schema, fragments, overlapping);
  std::vector<TileKeys> keys(tiles.size());
  parallel_for(tiles.size(), threads, [&](size_t i) {
    keys[i] = read_keys(store, schema, *fragments[tiles[i].fragment], tiles[i].tile);
  });

  struct Newest {
    uint64_t timestamp = 0;
    size_t place = 0;  // in tiles
    size_t cell = 0;
  };
  ReplacedCells replaced;
  const auto mark = [&](size_t place, size_t cell) {
    auto& mask = replaced[{tiles[place].fragment, tiles[place].tile}];
    mask.resize(keys[place].ends.size());
    mask[cell] = 1;
  };
  std::unordered_map<std::string_view, Newest> newest;
  for (size_t place = 0; place < tiles.size(); ++place) {
    const FragmentMetadata& fragment = *fragments[tiles[place].fragment];
    const bool partly = fragment.location().partly_in_range && fragment.has_timestamps();
    for (size_t cell = 0; cell < keys[place].ends.size(); ++cell) {
      const uint64_t timestamp = keys[place].timestamps.empty()
                                     ? fragment.location().name.time.start
                                     : keys[place].timestamps[cell];
      if (partly && (timestamp < range.start || timestamp > range.end)) continue;
      const auto [entry, is_new] =
          newest.try_emplace(keys[place].key(cell), Newest{timestamp, place, cell});
      if (is_new) continue;
      Newest& held = entry->second;
      const bool same_fragment = tiles[held.place].fragment == tiles[place].fragment;
      // Fragments come in order of age, so that of two at one time the later one wins.
      const bool wins = same_fragment ? timestamp > held.timestamp : timestamp >= held.timestamp;
      if (wins) {
        mark(held.place, held.cell);
        held = {timestamp, place, cell};
      } else {
        mark(place, cell);
      }
    }
  }
  return replaced;
}

}  // namespace penstock::format::tiledb
