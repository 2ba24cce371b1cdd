#include "codec/tile/chunk.h"

#include <penstock/error.h>

#include "base/concat.h"

namespace penstock::codec {
namespace {

constexpr uint64_t kChunkHeaderBytes = 3 * sizeof(uint32_t);

}  // namespace

ChunkReader::ChunkReader(std::span<const std::byte> stored) : reader_(stored) {
  count_ = reader_.read<uint64_t>("number of chunks");
  reader_.expect_items(count_, kChunkHeaderBytes, "chunks");
}

bool ChunkReader::next(Chunk& chunk) {
  if (done_ == count_) {
    if (!reader_.empty()) {
      throw CorruptData(
          concat("stored tile has ", reader_.remaining(), " bytes after its ", count_, " chunks"));
    }
    return false;
  }
  ++done_;
  chunk.original_bytes = reader_.read<uint32_t>("chunk original length");
  const auto data_bytes = reader_.read<uint32_t>("chunk filtered length");
  const auto metadata_bytes = reader_.read<uint32_t>("chunk metadata length");
  chunk.metadata = reader_.take(metadata_bytes, "chunk metadata");
  chunk.data = reader_.take(data_bytes, "chunk data");
  return true;
}

std::vector<Chunk> split_chunks(std::span<const std::byte> stored) {
  ChunkReader reader(stored);
  std::vector<Chunk> chunks;
  chunks.reserve(reader.chunk_count());
  Chunk chunk;
  while (reader.next(chunk)) chunks.push_back(chunk);
  return chunks;
}

}  // namespace penstock::codec
