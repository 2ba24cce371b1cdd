#include "format/hdf5/trees/chunk_index.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "format/hdf5/trees/btree_v1.h"
#include "format/hdf5/trees/btree_v2.h"

namespace penstock::format::hdf5 {
namespace {

uint32_t checked_bytes(uint64_t bytes) {
  return checked_cast<uint32_t>(bytes, "stored bytes of a chunk");
}

void read_btree1_chunks(const File& file, const Layout& layout, const ChunkedShape& shape,
                        const ChunkNumbers& numbers, std::vector<StoredChunk>& chunks) {
  const size_t rank = shape.shape.size();
  std::vector<uint64_t> position(rank), before;
  walk_btree_v1(file, layout.address, BTree1Type::kChunks, 8 + 8 * (rank + 1),
                [&](ByteReader& key, uint64_t address) {
                  StoredChunk chunk;
                  chunk.bytes = key.read<uint32_t>("size of a chunk");
                  chunk.skipped_filters = key.read<uint32_t>("filter mask");
                  for (size_t d = 0; d < rank; ++d) {
                    const auto offset = key.read<uint64_t>("place of a chunk");
                    if (offset % shape.chunk_shape[d] != 0) {
                      throw CorruptData(concat("a chunk begins at ", offset, ", chunks have ",
                                               shape.chunk_shape[d]));
                    }
                    position[d] = offset / shape.chunk_shape[d];
                  }
                  if (position <= before) throw CorruptData("chunks are not in order");
                  before = position;
                  chunk.address = address;
                  chunk.number = numbers.inside(position);
                  chunks.push_back(chunk);
                });
}

/// Bytes of the size of a filtered chunk in an index of layout version 4: those of the size of an
/// unfiltered chunk, and one more.
unsigned size_bytes_of(const Layout& layout, const ChunkedShape& shape) {
  if (layout.wide_sizes) return 8;
  const auto bits = static_cast<unsigned>(std::bit_width(shape.chunk_bytes));
  return std::min(8U, 1 + (bits + 7) / 8);
}

void read_btree2_chunks(const File& file, const Layout& layout, const ChunkedShape& shape,
                        const ChunkNumbers& numbers, std::vector<StoredChunk>& chunks) {
  const size_t rank = shape.shape.size();
  const unsigned size_bytes = size_bytes_of(layout, shape);
  const size_t record = file.offset_bytes() + (shape.filtered ? size_bytes + 4 : 0) + 8 * rank;
  std::vector<uint64_t> position(rank);
  walk_btree_v2(file, layout.address,
                shape.filtered ? BTree2Type::kFilteredChunks : BTree2Type::kChunks, record,
                [&](ByteReader& reader) {
                  StoredChunk chunk;
                  chunk.address = file.read_address(reader, "address of a chunk");
                  chunk.bytes = checked_bytes(shape.chunk_bytes);
                  if (shape.filtered) {
                    chunk.bytes = checked_bytes(read_number(reader, size_bytes, "size of a chunk"));
                    chunk.skipped_filters = reader.read<uint32_t>("filter mask");
                  }
                  for (uint64_t& each : position) each = reader.read<uint64_t>("place of a chunk");
                  chunk.number = numbers.inside(position);
                  chunks.push_back(chunk);
                });
}

void read_implicit_chunks(const File& file, const Layout& layout, const ChunkedShape& shape,
                          const ChunkNumbers& numbers, std::vector<StoredChunk>& chunks) {
  if (shape.filtered) throw CorruptData("chunks without an index cannot be filtered");
  const uint64_t bytes =
      checked_mul<uint64_t>(numbers.most(), shape.chunk_bytes, "bytes of all chunks");
  file.position_of(layout.address, bytes, "the chunks of an array");
  for (uint64_t i = 0; i < numbers.most(); ++i) {
    const auto number = numbers.number_of(i);
    if (!number) continue;
    chunks.push_back(
        {*number, layout.address + i * shape.chunk_bytes, checked_bytes(shape.chunk_bytes), 0});
  }
}

}  // namespace

// ---- numbers ------------------------------------------------------------------------------------

ChunkNumbers::ChunkNumbers(const ChunkedShape& shape) {
  const size_t rank = shape.shape.size();
  order_.resize(rank);
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::vector<uint64_t> most(rank);
  for (size_t d = 0; d < rank; ++d) {
    const uint64_t chunk = shape.chunk_shape[d];
    lengths_.push_back(shape.shape[d] / chunk + (shape.shape[d] % chunk != 0));
    const bool grows = shape.most_shape[d] == Dataspace::kUnlimited;
    const uint64_t end = grows ? shape.shape[d] : std::max(shape.most_shape[d], shape.shape[d]);
    most[d] = end / chunk + (end % chunk != 0);
    // Only one dimension can grow without end, if an array of chunks is the index.
    if (grows)
      std::rotate(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(d),
                  order_.begin() + static_cast<ptrdiff_t>(d) + 1);
  }
  steps_.resize(rank);
  for (size_t i = rank; i-- != 0;) {
    steps_[i] = most_;
    if (__builtin_mul_overflow(most_, most[order_[i]], &most_)) {
      throw CorruptData("an array of more chunks than can be counted");
    }
  }
}

std::optional<uint64_t> ChunkNumbers::number_at(const std::vector<uint64_t>& position) const {
  uint64_t number = 0;
  for (size_t d = 0; d < lengths_.size(); ++d) {
    if (position[d] >= lengths_[d]) return std::nullopt;
    number = number * lengths_[d] + position[d];
  }
  return number;
}

uint64_t ChunkNumbers::inside(const std::vector<uint64_t>& position) const {
  const auto number = number_at(position);
  if (!number) throw CorruptData("a chunk lies outside of its array");
  return *number;
}

std::optional<uint64_t> ChunkNumbers::number_of(uint64_t index) const {
  std::vector<uint64_t> position(lengths_.size());
  for (size_t i = 0; i < order_.size(); ++i) {
    if (steps_[i] == 0) return std::nullopt;  // an empty array
    position[order_[i]] = index / steps_[i];
    index %= steps_[i];
  }
  return number_at(position);
}

void ChunkEntries::take(ByteReader& reader, uint64_t index, uint64_t count, unsigned entry_bytes) {
  const unsigned frame = file_.offset_bytes() + (shape_.filtered ? 4 : 0);
  if (entry_bytes < frame || entry_bytes > frame + 8 ||
      (!shape_.filtered && entry_bytes != frame)) {
    throw CorruptData(concat("entries of a chunk index have ", entry_bytes, " bytes"));
  }
  reader.expect_items(count, entry_bytes, "entries of a chunk index");
  for (uint64_t i = 0; i < count; ++i) {
    StoredChunk chunk;
    chunk.address = file_.read_address(reader, "address of a chunk");
    uint64_t bytes = shape_.chunk_bytes;
    if (shape_.filtered) {
      bytes = read_number(reader, entry_bytes - frame, "size of a chunk");
      chunk.skipped_filters = reader.read<uint32_t>("filter mask");
    }
    if (file_.is_undefined(chunk.address)) continue;
    chunk.bytes = checked_bytes(bytes);
    if (const auto number = numbers_.number_of(index + i)) {
      chunk.number = *number;
      chunks_.push_back(chunk);
    }
  }
}

// ---- the index ----------------------------------------------------------------------------------

ChunkIndex ChunkIndex::read(const File& file, const Layout& layout, const ChunkedShape& shape) {
  ChunkIndex index;
  if (file.is_undefined(layout.address)) return index;
  const ChunkNumbers numbers(shape);
  std::vector<StoredChunk>& chunks = index.chunks_;
  ChunkEntries entries(file, shape, numbers, chunks);
  switch (layout.index) {
    case ChunkIndexType::kSingle:
      chunks.push_back(
          {0, layout.address,
           checked_bytes(layout.single_filtered ? layout.single_bytes : shape.chunk_bytes),
           layout.single_mask});
      break;
    case ChunkIndexType::kImplicit:
      read_implicit_chunks(file, layout, shape, numbers, chunks);
      break;
    case ChunkIndexType::kFixedArray:
      read_fixed_array(file, layout.address, shape.filtered, entries);
      break;
    case ChunkIndexType::kExtensibleArray:
      read_extensible_array(file, layout.address, shape.filtered, entries);
      break;
    case ChunkIndexType::kBTree2:
      read_btree2_chunks(file, layout, shape, numbers, chunks);
      break;
    case ChunkIndexType::kBTree1:
      read_btree1_chunks(file, layout, shape, numbers, chunks);
      break;
  }
  const auto by_number = [](const StoredChunk& a, const StoredChunk& b) {
    return a.number < b.number;
  };
  std::sort(chunks.begin(), chunks.end(), by_number);
  for (size_t i = 0; i < chunks.size(); ++i) {
    file.position_of(chunks[i].address, chunks[i].bytes, "a chunk");
    if (i != 0 && chunks[i].number == chunks[i - 1].number) {
      throw CorruptData(concat("chunk ", chunks[i].number, " is stored twice"));
    }
  }
  chunks.shrink_to_fit();
  return index;
}

const StoredChunk* ChunkIndex::find(uint64_t number) const {
  const auto found = std::lower_bound(
      chunks_.begin(), chunks_.end(), number,
      [](const StoredChunk& chunk, uint64_t wanted) { return chunk.number < wanted; });
  return found != chunks_.end() && found->number == number ? &*found : nullptr;
}

}  // namespace penstock::format::hdf5
