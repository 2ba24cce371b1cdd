#pragma once

#include <penstock/data_type.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "base/testing/test_data.h"

// Tests only. Reads tests/data/codec_golden/*.bin.gz: tiles that TileDB stored, and the cells that
// it read from them. tests/golden/make_codec_golden.py writes the files and describes their layout.

namespace penstock::codec {

using Bytes = std::vector<std::byte>;

struct GoldenTile {
  std::string name;
  bool strings = false;  ///< encoded together with their offsets
  DataType type = DataType::kAny;
  uint32_t format_version = 0;
  uint64_t cell_bytes = 0;
  Bytes pipeline;
  Bytes stored;
  Bytes cells;
  std::vector<uint64_t> offsets;
};

inline Bytes inflate_file(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path.string());
  Bytes bytes;
  std::byte block[65536];
  for (int size; (size = gzread(file, block, sizeof(block))) > 0;) {
    bytes.insert(bytes.end(), block, block + size);
  }
  gzclose(file);
  return bytes;
}

inline std::vector<GoldenTile> read_golden_file(const std::filesystem::path& path) {
  const Bytes bytes = inflate_file(path);
  ByteReader reader(bytes);
  if (reader.take_string(8, "magic") != "PSCG0001") {
    throw std::runtime_error("not a golden file: " + path.string());
  }
  std::vector<Bytes> blobs(reader.read<uint32_t>("blobs"));
  for (Bytes& blob : blobs) {
    const auto view = reader.take(reader.read<uint32_t>("blob length"), "blob");
    blob.assign(view.begin(), view.end());
  }
  std::vector<GoldenTile> tiles(reader.read<uint32_t>("entries"));
  for (GoldenTile& tile : tiles) {
    tile.name = reader.take_string(reader.read<uint16_t>("name length"), "name");
    tile.strings = reader.read<uint8_t>("kind") == 1;
    tile.type = static_cast<DataType>(reader.read<uint8_t>("type"));
    tile.format_version = reader.read<uint32_t>("format");
    tile.cell_bytes = reader.read<uint64_t>("cell bytes");
    tile.pipeline = blobs.at(reader.read<uint32_t>("pipeline"));
    tile.stored = blobs.at(reader.read<uint32_t>("stored"));
    tile.cells = blobs.at(reader.read<uint32_t>("cells"));
    const auto offsets = reader.read<uint32_t>("offsets");
    if (offsets != 0xFFFFFFFFU) {
      tile.offsets.resize(blobs.at(offsets).size() / sizeof(uint64_t));
      std::memcpy(tile.offsets.data(), blobs[offsets].data(), blobs[offsets].size());
    }
  }
  return tiles;
}

/// All tiles of all format versions.
inline std::vector<GoldenTile> read_golden_tiles() {
  std::vector<GoldenTile> tiles;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("codec_golden"))) {
    if (entry.path().extension() != ".gz") continue;
    for (GoldenTile& tile : read_golden_file(entry.path())) tiles.push_back(std::move(tile));
  }
  return tiles;
}

}  // namespace penstock::codec
