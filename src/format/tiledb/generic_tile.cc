#include "format/tiledb/generic_tile.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/concat.h"
#include "base/threads/parallel.h"

namespace penstock::format::tiledb {
namespace {

// version, stored size, inflated size, type, cell size, encryption, pipeline size
constexpr uint64_t kFixedHeaderBytes = 4 + 8 + 8 + 1 + 8 + 1 + 4;
// Filters are a few bytes each; TileDB writes one.
constexpr uint32_t kMaxPipelineBytes = 64 * 1024;
// Deflate shrinks zeros 1,032 times, but no long metadata consists of zeros alone.
constexpr uint64_t kMaxInflation = 64;

// From this size on (lists of millions of tiles), several threads decode runs of about 2 MiB.
constexpr size_t kParallelBodyBytes = 1024 * 1024;
constexpr size_t kChunksPerRun = 32;
constexpr size_t kChunkHeaderBytes = 12;
constexpr unsigned kMaxThreads = 8;

struct Header {
  uint32_t format_version = 0;
  uint64_t body_bytes = 0;
  uint64_t tile_bytes = 0;
  DataType type = DataType::kChar;
  uint32_t pipeline_bytes = 0;

  uint64_t body_offset() const { return kFixedHeaderBytes + pipeline_bytes; }
  uint64_t stored_bytes() const { return checked_add(body_offset(), body_bytes, "generic tile"); }
};

Header parse_header(ByteReader& reader) {
  Header header;
  header.format_version = reader.read<uint32_t>("generic tile version");
  if (header.format_version > kNewestFormatVersion) {
    throw Unsupported(concat("generic tile has format version ", header.format_version,
                             ", newer than ", kNewestFormatVersion,
                             " (or the bytes are no generic tile); a newer penstock may read it"));
  }
  header.body_bytes = reader.read<uint64_t>("generic tile stored size");
  header.tile_bytes = reader.read<uint64_t>("generic tile size");
  const auto type = reader.read<uint8_t>("generic tile type");
  if (type > kLastDataType) {
    throw CorruptData(concat("generic tile type is unknown: ", type));
  }
  header.type = static_cast<DataType>(type);
  reader.skip(8, "generic tile cell size");
  const auto encryption = reader.read<uint8_t>("generic tile encryption");
  if (encryption != 0) {
    throw Unsupported(
        concat("encrypted TileDB objects are not read; write the array again without encryption "
               "(encryption type ",
               encryption, ")"));
  }
  header.pipeline_bytes = reader.read<uint32_t>("generic tile pipeline size");
  if (header.pipeline_bytes > kMaxPipelineBytes) {
    throw CorruptData(concat("generic tile pipeline is too long: ", header.pipeline_bytes));
  }
  return header;
}

// Chunks are independent, so runs of chunks are decoded as separate tiles, each with its own count.
void decode_in_parallel(const Header& header, const codec::FilterPipeline& filters,
                        std::span<const std::byte> body, std::span<std::byte> out) {
  const std::vector<codec::Chunk> chunks = codec::split_chunks(body);
  std::vector<uint64_t> starts(chunks.size() + 1);  // of each chunk in `out`
  for (size_t i = 0; i < chunks.size(); ++i) starts[i + 1] = starts[i] + chunks[i].original_bytes;

  const size_t run_count = (chunks.size() + kChunksPerRun - 1) / kChunksPerRun;
  parallel_for(run_count, std::min(thread_count(0), kMaxThreads), [&](size_t run) {
    const size_t first = run * kChunksPerRun;
    const size_t last = std::min(first + kChunksPerRun, chunks.size());
    const std::byte* begin = chunks[first].metadata.data() - kChunkHeaderBytes;
    const auto bytes =
        static_cast<size_t>(chunks[last - 1].data.data() + chunks[last - 1].data.size() - begin);
    const uint64_t count = last - first;
    Buffer stored(sizeof(count) + bytes);
    std::memcpy(stored.data(), &count, sizeof(count));
    std::memcpy(stored.data() + sizeof(count), begin, bytes);
    codec::DecodeScratch scratch;
    filters.decode(stored.span(), header.type, header.format_version,
                   out.subspan(starts[first], starts[last] - starts[first]), scratch);
  });
}

}  // namespace

uint64_t most_inflated(uint64_t stored, uint64_t believed_bytes) noexcept {
  return std::max(believed_bytes, stored * kMaxInflation);
}

GenericTile decode_generic_tile(std::span<const std::byte> stored, uint64_t believed_bytes) {
  ByteReader reader(stored);
  const Header header = parse_header(reader);
  ByteReader pipeline_reader(reader.take(header.pipeline_bytes, "generic tile pipeline"));
  const auto filters = codec::FilterPipeline::parse(pipeline_reader, header.format_version);
  const auto body = reader.take(header.body_bytes, "generic tile body");

  if (filters.filters().size() > 1) {
    throw CorruptData(
        concat("generic tile has ", filters.filters().size(), " filters, TileDB writes one"));
  }
  const uint64_t decoded_bytes = filters.decoded_bytes(body);
  if (decoded_bytes != header.tile_bytes) {
    throw CorruptData(concat("generic tile has ", decoded_bytes, " bytes where its header says ",
                             header.tile_bytes));
  }
  if (const uint64_t most = most_inflated(body.size(), believed_bytes); decoded_bytes > most) {
    throw CorruptData(concat("metadata must not exceed ", most, " bytes, as only ", body.size(),
                             " bytes are stored, but claim to be ", decoded_bytes));
  }
  GenericTile tile;
  tile.format_version = header.format_version;
  tile.stored_bytes = header.stored_bytes();
  tile.bytes.resize_discard(decoded_bytes);
  if (body.size() < kParallelBodyBytes) {
    codec::DecodeScratch scratch;
    filters.decode(body, header.type, header.format_version, tile.bytes.span(), scratch);
  } else {
    decode_in_parallel(header, filters, body, tile.bytes.span());
  }
  return tile;
}

GenericTile read_generic_tile(const io::Store& store, const std::string& path, uint64_t offset,
                              uint64_t believed_bytes) {
  const auto read_and_decode = [&] {
    const uint64_t object_bytes = store.size_bytes(path);
    if (offset > object_bytes || object_bytes - offset < kFixedHeaderBytes) {
      throw CorruptData(concat("truncated: no generic tile fits, object ends at ", object_bytes));
    }
    const uint64_t available = object_bytes - offset;
    Buffer stored(std::min(available, kGenericTileFirstRead));
    store.read(path, offset, stored.span());

    ByteReader reader(stored.span());
    const uint64_t stored_bytes = parse_header(reader).stored_bytes();
    if (stored_bytes > available) {
      throw CorruptData(concat("truncated: generic tile needs ", stored_bytes,
                               " bytes, object has ", available, " left"));
    }
    if (stored_bytes <= stored.size()) return decode_generic_tile(stored.span(), believed_bytes);
    Buffer whole(stored_bytes);
    std::memcpy(whole.data(), stored.data(), stored.size());
    store.read(path, offset + stored.size(), whole.span().subspan(stored.size()));
    return decode_generic_tile(whole.span(), believed_bytes);
  };
  return with_place(read_and_decode, [&] { return path + " at offset " + std::to_string(offset); });
}

}  // namespace penstock::format::tiledb
