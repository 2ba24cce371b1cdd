#include "codec/blosc/blosc_chunk.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "codec/blosc/blosclz.h"
#include "codec/compressors/inflate_stream.h"
#include "codec/compressors/lz4.h"
#include "codec/compressors/zstd.h"
#include "codec/filters/bitshuffle.h"
#include "codec/filters/byteshuffle.h"
#include "codec/tile/expansion.h"

namespace penstock::codec {
namespace {

constexpr size_t kHeaderBytes = 16;
constexpr uint32_t kVersion = 2;
constexpr uint64_t kMostDecodedBytes = (uint64_t{1} << 31) - 1 - kHeaderBytes;

// blosc.h, "Codes for internal flags"; README_CHUNK_FORMAT.rst.
constexpr uint32_t kByteShuffled = 0x01;
constexpr uint32_t kPlain = 0x02;
constexpr uint32_t kBitShuffled = 0x04;
constexpr uint32_t kReserved = 0x08;
constexpr uint32_t kNotSplit = 0x10;

// blosc.c, MAX_SPLITS and MIN_BUFFERSIZE: other blocks are never split, whatever the flag says.
constexpr size_t kMostSplits = 16;
constexpr size_t kLeastSplitElements = 128;

bool inflate_stream(std::span<const std::byte> in, std::span<std::byte> out) {
  return inflate_exactly(DeflateFormat::kZlib, in, out);
}

void check_version(std::span<const std::byte> stored) {
  const auto version = std::to_integer<uint32_t>(stored[0]);
  if (version == kVersion) return;
  // The versions of Blosc 2 chunks so far, and the first byte of its frames (README_CFRAME_FORMAT).
  if ((version >= 3 && version <= 6) || version == 0x9E) {
    throw Unsupported("blosc: the chunk is in the format of Blosc 2; write it with Blosc 1");
  }
  if (version == 1) throw Unsupported("blosc: chunks of version 1 are not read");
  throw CorruptData(concat("blosc: the version is ", version, ", expected ", kVersion));
}

}  // namespace

BloscChunk::BloscChunk(std::span<const std::byte> stored) : stored_(stored) {
  ByteReader header(stored);
  if (stored.size() < kHeaderBytes) {
    throw CorruptData(concat("blosc: the header has 16 bytes, the chunk ", stored.size()));
  }
  check_version(stored);
  header.skip(1, "blosc version");
  const uint32_t compressor_version = header.read<uint8_t>("blosc compressor version");
  const uint32_t flags = header.read<uint8_t>("blosc flags");
  element_bytes_ = header.read<uint8_t>("blosc element bytes");
  decoded_bytes_ = header.read<uint32_t>("blosc decoded bytes");
  block_bytes_ = header.read<uint32_t>("blosc block bytes");
  const auto stored_bytes = header.read<uint32_t>("blosc stored bytes");

  if ((flags & kReserved) != 0) throw Unsupported("blosc: flag 8 is set, which no Blosc 1 writes");
  plain_ = (flags & kPlain) != 0 || decoded_bytes_ == 0;
  split_ = (flags & kNotSplit) == 0;
  if ((flags & kByteShuffled) != 0 && element_bytes_ > 1) {
    shuffle_ = Shuffle::kBytes;
  } else if ((flags & kBitShuffled) != 0) {
    shuffle_ = Shuffle::kBits;
  }
  if (!plain_) choose_compressor(flags >> 5, compressor_version);
  check_sizes(stored_bytes);
  if (!plain_) {
    block_count_ = (decoded_bytes_ + block_bytes_ - 1) / block_bytes_;
    header.expect_items(block_count_, sizeof(uint32_t), "blosc block starts");
  }
}

void BloscChunk::choose_compressor(uint32_t code, uint32_t version) {
  const auto use = [this](const char* name, Decompress function, FilterType like) {
    compressor_ = name;
    decompress_ = function;
    most_expansion_ = most_decoded_bytes(like, 1);
  };
  switch (code) {
    case 0:
      // A length grows by 255 with each byte, as in LZ4.
      use("blosclz", blosclz_decompress, FilterType::kLz4);
      break;
    case 1:
      use("lz4", lz4_decompress, FilterType::kLz4);
      break;
    case 2:
      throw Unsupported("blosc: the compressor Snappy is not read; write the data with LZ4");
    case 3:
      use("zlib", inflate_stream, FilterType::kGzip);
      break;
    case 4:
      use("zstd", zstd_decompress, FilterType::kZstd);
      break;
    default:
      throw Unsupported(concat("blosc: unknown compressor ", code));
  }
  if (version != 1) {
    throw Unsupported(concat("blosc: ", compressor_, " of version ", version, ", 1 is read"));
  }
}

void BloscChunk::check_sizes(uint32_t stored_bytes) const {
  if (stored_bytes != stored_.size()) {
    throw CorruptData(concat("blosc: the header says ", stored_bytes,
                             " stored bytes, the chunk has ", stored_.size()));
  }
  if (plain_) {
    if (decoded_bytes_ != stored_.size() - kHeaderBytes) {
      throw CorruptData(concat("blosc: ", stored_.size() - kHeaderBytes,
                               " uncompressed bytes, the header says ", decoded_bytes_));
    }
    return;
  }
  if (element_bytes_ == 0) throw CorruptData("blosc: elements of 0 bytes");
  if (block_bytes_ == 0 || block_bytes_ > decoded_bytes_) {
    throw CorruptData(
        concat("blosc: blocks of ", block_bytes_, " bytes in a chunk of ", decoded_bytes_));
  }
  if (decoded_bytes_ > std::min(kMostDecodedBytes, most_expansion_ * stored_.size())) {
    throw CorruptData(concat("blosc: ", stored_.size(), " stored bytes claim to hold ",
                             decoded_bytes_, ", more than ", compressor_, " can make of them"));
  }
}

std::span<const std::byte> BloscChunk::plain() const noexcept {
  return stored_.subspan(kHeaderBytes, decoded_bytes_);
}

size_t BloscChunk::block_size(size_t block) const noexcept {
  return std::min<uint64_t>(block_bytes_, decoded_bytes_ - block_begin(block));
}

size_t BloscChunk::stream_count(size_t block, size_t size) const noexcept {
  const bool shorter = block + 1 == block_count_ && size < block_bytes_;
  return split_ && !shorter && element_bytes_ <= kMostSplits &&
                 size / element_bytes_ >= kLeastSplitElements
             ? element_bytes_
             : 1;
}

void BloscChunk::decompress(size_t block, std::span<std::byte> out) const {
  const auto fail = [&](const auto&... what) {
    throw CorruptData(concat("blosc: ", what..., ", in block ", block, " of ", block_count_));
  };
  const size_t streams = stream_count(block, out.size());
  const size_t share = out.size() / streams;
  if (share * streams != out.size()) {
    fail(out.size(), " bytes do not divide into ", streams, " streams");
  }
  const auto number_at = [this](size_t offset) {
    uint32_t number;
    std::memcpy(&number, stored_.data() + offset, sizeof(number));
    return number;
  };
  size_t at = number_at(kHeaderBytes + block * sizeof(uint32_t));
  for (size_t stream = 0; stream < streams; ++stream) {
    if (at > stored_.size() || stored_.size() - at < sizeof(uint32_t)) {
      fail("stream ", stream, " starts at byte ", at, " of ", stored_.size());
    }
    const size_t length = number_at(at);
    at += sizeof(uint32_t);
    if (length > stored_.size() - at) {
      fail("stream ", stream, " has ", length, " bytes at byte ", at, " of ", stored_.size());
    }
    const auto in = stored_.subspan(at, length);
    const auto to = out.subspan(stream * share, share);
    if (length == share) {
      std::memcpy(to.data(), in.data(), share);
    } else if (!decompress_(in, to)) {
      fail("bad stream ", stream, " of ", compressor_, " at byte ", at, ", ", length,
           " compressed bytes to ", share);
    }
    at += length;
  }
}

void BloscChunk::decode(size_t block, std::span<std::byte> out, Buffer& work) const {
  if (shuffle_ == Shuffle::kNone) return decompress(block, out);
  work.resize_discard(out.size());
  decompress(block, work.span());
  if (shuffle_ == Shuffle::kBytes) return unshuffle_bytes(element_bytes_, work.span(), out);
  // shuffle.c, blosc_internal_bitshuffle: other numbers of elements are stored as they are.
  const size_t count = out.size() / element_bytes_;
  const size_t shuffled = count % 8 == 0 ? count * element_bytes_ : 0;
  if (shuffled > 0) unshuffle_bits(element_bytes_, count, work.data(), out.data());
  std::copy(work.data() + shuffled, work.data() + out.size(), out.data() + shuffled);
}

void BloscChunk::decode_all(std::span<std::byte> out, Buffer& work) const {
  if (out.size() != decoded_bytes_) {
    throw CorruptData(
        concat("blosc: the chunk has ", decoded_bytes_, " bytes, expected ", out.size()));
  }
  if (plain_) {
    std::copy_n(stored_.data() + kHeaderBytes, out.size(), out.data());
    return;
  }
  for (size_t block = 0; block < block_count_; ++block) {
    decode(block, out.subspan(block_begin(block), block_size(block)), work);
  }
}

}  // namespace penstock::codec
