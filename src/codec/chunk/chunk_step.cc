#include "codec/chunk/chunk_step.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/concat.h"
#include "base/hash/checksum.h"
#include "codec/blosc/blosc_chunk.h"
#include "codec/compressors/inflate_stream.h"
#include "codec/compressors/lz4.h"
#include "codec/compressors/lzf.h"
#include "codec/compressors/zstd.h"
#include "codec/filters/byteshuffle.h"
#include "codec/filters/fletcher32.h"
#include "codec/tile/expansion.h"

namespace penstock::codec {
namespace {

constexpr size_t kChecksumBytes = sizeof(uint32_t);

[[noreturn]] void throw_bad_stream(const ChunkFilter& filter, size_t stored, size_t decoded) {
  throw CorruptData(concat(name_of(filter.type), ": bad stream, ", stored,
                           " compressed bytes of a chunk of ", decoded));
}

[[noreturn]] void throw_bad_or_long(const ChunkFilter& filter, size_t stored, uint64_t most) {
  throw CorruptData(concat(name_of(filter.type), ": ", stored,
                           " compressed bytes are a bad stream, or make more than ", most,
                           " bytes"));
}

DeflateFormat deflate_format(ChunkFilterType type) {
  return type == ChunkFilterType::kGzip ? DeflateFormat::kGzip : DeflateFormat::kZlib;
}

struct Lz4Chunk {
  uint64_t decoded_bytes;
  std::span<const std::byte> block;
};

// Source: numcodecs lz4.pyx.
Lz4Chunk read_lz4(std::span<const std::byte> stored) {
  ByteReader reader(stored);
  const uint64_t decoded_bytes = reader.read<uint32_t>("lz4 decoded bytes");
  const auto block = reader.take(reader.remaining(), "lz4 block");
  const uint64_t most = most_decoded_bytes(FilterType::kLz4, block.size());
  if (decoded_bytes > most) {
    throw CorruptData(concat("lz4: a block of ", block.size(), " bytes claims to hold ",
                             decoded_bytes, ", it can hold ", most, " at most"));
  }
  return {decoded_bytes, block};
}

std::span<const std::byte> check_crc32c(std::span<const std::byte> stored) {
  if (stored.size() < kChecksumBytes) {
    throw CorruptData(concat("crc32c: a checksum has 4 bytes, the chunk ", stored.size()));
  }
  const auto bytes = stored.first(stored.size() - kChecksumBytes);
  const auto expected = ByteReader(stored.last(kChecksumBytes)).read<uint32_t>("crc32c");
  const uint32_t got = crc32c(bytes);
  if (got != expected) {
    throw CorruptData(concat("crc32c: the checksum of ", bytes.size(), " bytes is ", got,
                             ", stored is ", expected));
  }
  return bytes;
}

std::span<const std::byte> check_fletcher32(std::span<const std::byte> stored) {
  if (stored.size() < kChecksumBytes) {
    throw CorruptData(concat("fletcher32: a checksum has 4 bytes, the chunk ", stored.size()));
  }
  const auto bytes = stored.first(stored.size() - kChecksumBytes);
  const auto expected = ByteReader(stored.last(kChecksumBytes)).read<uint32_t>("fletcher32");
  const uint32_t got = fletcher32(bytes);
  // HDF5 before 1.6.3 stored the bytes of each half in the other order, on machines like this.
  const uint32_t old = (got & 0x00FF00FFU) << 8 | (got >> 8 & 0x00FF00FFU);
  if (expected != got && expected != old) {
    throw CorruptData(concat("fletcher32: the checksum of ", bytes.size(), " bytes is ", got,
                             ", stored is ", expected));
  }
  return bytes;
}

std::span<const std::byte> check_checksum(ChunkFilterType type, std::span<const std::byte> stored) {
  return type == ChunkFilterType::kCrc32c ? check_crc32c(stored) : check_fletcher32(stored);
}

void check_size(const ChunkFilter& filter, uint64_t got, uint64_t expected) {
  if (got != expected) {
    throw CorruptData(
        concat(name_of(filter.type), ": the chunk has ", got, " bytes, expected ", expected));
  }
}

void check_element(const ChunkFilter& filter) {
  if (filter.element_bytes == 0) throw CorruptData("shuffle: elements of 0 bytes");
}

}  // namespace

bool is_checksum(ChunkFilterType type) noexcept {
  return type == ChunkFilterType::kCrc32c || type == ChunkFilterType::kFletcher32;
}

std::string_view name_of(ChunkFilterType type) noexcept {
  switch (type) {
    case ChunkFilterType::kBlosc:
      return "blosc";
    case ChunkFilterType::kZstd:
      return "zstd";
    case ChunkFilterType::kGzip:
      return "gzip";
    case ChunkFilterType::kZlib:
      return "zlib";
    case ChunkFilterType::kLz4:
      return "lz4";
    case ChunkFilterType::kCrc32c:
      return "crc32c";
    case ChunkFilterType::kShuffle:
      return "shuffle";
    case ChunkFilterType::kFletcher32:
      return "fletcher32";
    case ChunkFilterType::kLzf:
      return "lzf";
  }
  return "unknown";
}

uint64_t most_decoded_bytes(ChunkFilterType type, uint64_t stored) noexcept {
  switch (type) {
    case ChunkFilterType::kBlosc:  // of its compressors, zstd makes most
    case ChunkFilterType::kZstd:
      return most_decoded_bytes(FilterType::kZstd, stored);
    case ChunkFilterType::kGzip:
    case ChunkFilterType::kZlib:
      return most_decoded_bytes(FilterType::kGzip, stored);
    case ChunkFilterType::kLz4:
      return most_decoded_bytes(FilterType::kLz4, stored);
    case ChunkFilterType::kLzf:
      return stored > UINT64_MAX / kMostLzfExpansion ? UINT64_MAX : stored * kMostLzfExpansion;
    case ChunkFilterType::kCrc32c:
    case ChunkFilterType::kFletcher32:
    case ChunkFilterType::kShuffle:
      break;
  }
  return stored;
}

std::optional<uint64_t> stored_bytes(ChunkFilterType type, uint64_t decoded) noexcept {
  if (type == ChunkFilterType::kShuffle) return decoded;
  if (is_checksum(type)) return decoded + kChecksumBytes;
  return std::nullopt;
}

void undo_sized(const ChunkFilter& filter, std::span<const std::byte> stored,
                std::span<std::byte> out, Buffer& work) {
  switch (filter.type) {
    case ChunkFilterType::kBlosc:
      return BloscChunk(stored).decode_all(out, work);
    case ChunkFilterType::kZstd:
      if (stored.empty() || !zstd_decompress(stored, out)) {
        throw_bad_stream(filter, stored.size(), out.size());
      }
      return;
    case ChunkFilterType::kGzip:
    case ChunkFilterType::kZlib:
      if (!inflate_exactly(deflate_format(filter.type), stored, out)) {
        throw_bad_stream(filter, stored.size(), out.size());
      }
      return;
    case ChunkFilterType::kLz4: {
      const Lz4Chunk chunk = read_lz4(stored);
      check_size(filter, chunk.decoded_bytes, out.size());
      if (!lz4_decompress(chunk.block, out)) throw_bad_stream(filter, stored.size(), out.size());
      return;
    }
    case ChunkFilterType::kLzf:
      if (!lzf_decompress(stored, out)) throw_bad_stream(filter, stored.size(), out.size());
      return;
    case ChunkFilterType::kCrc32c:
    case ChunkFilterType::kFletcher32: {
      const auto bytes = check_checksum(filter.type, stored);
      check_size(filter, bytes.size(), out.size());
      std::copy(bytes.begin(), bytes.end(), out.begin());
      return;
    }
    case ChunkFilterType::kShuffle:
      check_element(filter);
      check_size(filter, stored.size(), out.size());
      return unshuffle_bytes(filter.element_bytes, stored, out);
  }
}

std::span<const std::byte> undo_unsized(const ChunkFilter& filter,
                                        std::span<const std::byte> stored, uint64_t most,
                                        Buffer& out, Buffer& work) {
  switch (filter.type) {
    case ChunkFilterType::kBlosc: {
      const BloscChunk chunk(stored);
      if (chunk.is_plain()) return chunk.plain();
      if (chunk.decoded_bytes() > most) throw_bad_or_long(filter, stored.size(), most);
      out.resize_discard(chunk.decoded_bytes());
      chunk.decode_all(out.span(), work);
      break;
    }
    case ChunkFilterType::kZstd:
      if (stored.empty() || !zstd_decompress_unsized(stored, most, out)) {
        throw_bad_or_long(filter, stored.size(), most);
      }
      break;
    case ChunkFilterType::kGzip:
    case ChunkFilterType::kZlib:
      if (!inflate_unsized(deflate_format(filter.type), stored, most, out)) {
        throw_bad_or_long(filter, stored.size(), most);
      }
      break;
    case ChunkFilterType::kLz4: {
      const Lz4Chunk chunk = read_lz4(stored);
      if (chunk.decoded_bytes > most) throw_bad_or_long(filter, stored.size(), most);
      out.resize_discard(chunk.decoded_bytes);
      if (!lz4_decompress(chunk.block, out.span())) {
        throw_bad_or_long(filter, stored.size(), most);
      }
      break;
    }
    case ChunkFilterType::kLzf:
      if (!lzf_decompress_unsized(stored, most, out)) {
        throw_bad_or_long(filter, stored.size(), most);
      }
      break;
    case ChunkFilterType::kCrc32c:
    case ChunkFilterType::kFletcher32:
      return check_checksum(filter.type, stored);
    case ChunkFilterType::kShuffle:
      check_element(filter);
      out.resize_discard(stored.size());
      unshuffle_bytes(filter.element_bytes, stored, out.span());
      break;
  }
  return out.span();
}

}  // namespace penstock::codec
