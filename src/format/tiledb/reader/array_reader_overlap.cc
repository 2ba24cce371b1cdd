#include "format/tiledb/reader/array_reader_overlap.h"

#include <penstock/error.h>

#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/threads/parallel.h"
#include "format/tiledb/reader/array_reader_cells.h"
#include "format/tiledb/reader/boxes.h"

namespace penstock::format::tiledb {
namespace {

struct ComparedTile {
  size_t fragment = 0;
  uint64_t tile = 0;
};

/// The coordinates of a tile's cells, each as one byte string, and their times of writing.
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
      // Fragments are ordered by age, so the later one wins at equal times.
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
