#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "base/testing/test_data.h"
#include "codec/chunk/chunk_pipeline.h"
#include "codec/testing/golden_file.h"

// Tests only. Reads tests/data/chunk_golden/*.bin.gz: chunks that zarr's codecs stored, and their
// cells. tests/golden/make_chunk_golden.py writes the files and describes their layout.

namespace penstock::codec {

struct GoldenChunk {
  std::string name;
  bool strings = false;  ///< vlen-utf8: `cells` are characters
  std::vector<ChunkFilter> filters;
  Bytes stored;
  Bytes cells;
  std::vector<uint64_t> offsets;

  bool has(ChunkFilterType type) const {
    for (const ChunkFilter& filter : filters) {
      if (filter.type == type) return true;
    }
    return false;
  }
};

inline std::vector<GoldenChunk> read_golden_chunks_of(const std::filesystem::path& path) {
  const Bytes bytes = inflate_file(path);
  ByteReader reader(bytes);
  if (reader.take_string(8, "magic") != "PSCK0001") {
    throw std::runtime_error("not a file of golden chunks: " + path.string());
  }
  std::vector<Bytes> blobs(reader.read<uint32_t>("blobs"));
  for (Bytes& blob : blobs) {
    const auto view = reader.take(reader.read<uint32_t>("blob length"), "blob");
    blob.assign(view.begin(), view.end());
  }
  std::vector<GoldenChunk> chunks(reader.read<uint32_t>("entries"));
  for (GoldenChunk& chunk : chunks) {
    chunk.name = reader.take_string(reader.read<uint16_t>("name length"), "name");
    chunk.strings = reader.read<uint8_t>("kind") == 1;
    chunk.filters.resize(reader.read<uint8_t>("filters"));
    for (ChunkFilter& filter : chunk.filters) {
      filter.type = static_cast<ChunkFilterType>(reader.read<uint8_t>("filter"));
      filter.element_bytes = reader.read<uint32_t>("element bytes");
    }
    chunk.stored = blobs.at(reader.read<uint32_t>("stored"));
    chunk.cells = blobs.at(reader.read<uint32_t>("cells"));
    const auto offsets = reader.read<uint32_t>("offsets");
    if (offsets != 0xFFFFFFFFU) {
      ByteReader ends(blobs.at(offsets));
      while (!ends.empty()) chunk.offsets.push_back(ends.read<uint64_t>("offset"));
    }
  }
  return chunks;
}

inline const std::vector<GoldenChunk>& golden_chunks() {
  static const std::vector<GoldenChunk> all = [] {
    std::vector<GoldenChunk> chunks;
    for (const auto& entry : std::filesystem::directory_iterator(test_data("chunk_golden"))) {
      for (GoldenChunk& chunk : read_golden_chunks_of(entry.path())) {
        chunks.push_back(std::move(chunk));
      }
    }
    return chunks;
  }();
  return all;
}

/// Decodes [begin, end) with decode_parts. Throws std::logic_error unless the pieces follow one
/// another and are whole cells.
inline Bytes join_parts(const ChunkPipeline& pipeline, std::span<const std::byte> stored,
                        uint64_t decoded_bytes, uint32_t cell_bytes, uint64_t begin, uint64_t end,
                        ChunkScratch& scratch, size_t* shuffled_pieces = nullptr) {
  Bytes cells;
  pipeline.decode_parts(stored, 0, decoded_bytes, cell_bytes, begin, end, scratch,
                        [&](uint64_t first, const CellBytes& piece) {
                          if (first != begin + cells.size() || piece.bytes.empty() ||
                              piece.bytes.size() % cell_bytes != 0) {
                            throw std::logic_error("a piece does not follow the one before");
                          }
                          if (shuffled_pieces != nullptr && piece.shuffled) ++*shuffled_pieces;
                          const size_t count = piece.bytes.size() / cell_bytes;
                          for (size_t i = 0; i < piece.bytes.size(); ++i) {
                            const size_t at =
                                piece.shuffled ? i % cell_bytes * count + i / cell_bytes : i;
                            cells.push_back(piece.bytes[at]);
                          }
                        });
  if (cells.size() != end - begin) throw std::logic_error("pieces are missing");
  return cells;
}

}  // namespace penstock::codec
