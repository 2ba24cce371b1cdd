#include "format/hdf5/object/messages.h"

#include <penstock/error.h>

#include <string>
#include <utility>

#include "base/concat.h"

namespace penstock::format::hdf5 {
namespace {

constexpr size_t kMostRank = 32;  // H5S_MAX_RANK

// ---- filters

constexpr uint16_t kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kSzip = 4, kNbit = 5,
                   kScaleOffset = 6;
// Registered filters: The HDF Group, "Registered Filter Plugins".
constexpr uint16_t kBzip2 = 307, kLzf = 32000, kBlosc = 32001, kLz4 = 32004, kBitshuffle = 32008,
                   kZfp = 32013, kZstd = 32015, kBlosc2 = 32026;

std::string name_of_filter(uint16_t id) {
  switch (id) {
    case kSzip:
      return "szip";
    case kNbit:
      return "nbit";
    case kScaleOffset:
      return "scale-offset";
    case kBzip2:
      return "bzip2";
    case kLz4:
      return "LZ4";
    case kBitshuffle:
      return "bitshuffle";
    case kZfp:
      return "zfp";
    case kBlosc2:
      return "blosc2";
    default:
      return std::to_string(id);
  }
}

codec::ChunkFilter filter_of(uint16_t id, std::span<const uint32_t> values, uint32_t cell_bytes) {
  using codec::ChunkFilterType;
  switch (id) {
    case kDeflate:
      return {ChunkFilterType::kZlib, 0};
    case kShuffle:
      return {ChunkFilterType::kShuffle, values.empty() ? cell_bytes : values[0]};
    case kFletcher32:
      return {ChunkFilterType::kFletcher32, 0};
    case kLzf:
      return {ChunkFilterType::kLzf, 0};
    case kBlosc:
      return {ChunkFilterType::kBlosc, 0};
    case kZstd:
      return {ChunkFilterType::kZstd, 0};
    default:
      throw Unsupported(concat("chunks of the HDF5 filter ", name_of_filter(id),
                               " are not read; write the file again with anndata, without "
                               "compression or with gzip"));
  }
}

// ---- layouts

Layout read_old_layout(const File& file, ByteReader& reader, uint64_t message_address, size_t rank,
                       uint32_t cell_bytes) {
  Layout layout;
  const auto dimensions = reader.read<uint8_t>("dimensions of a layout");
  const auto kind = reader.read<uint8_t>("class of a layout");
  reader.skip(5, "layout");
  if (kind > 2) throw Unsupported(concat("a layout of class ", unsigned{kind}, " is not read"));
  layout.kind = static_cast<Layout::Kind>(kind);
  if (layout.kind != Layout::Kind::kCompact) {
    layout.address = file.read_address(reader, "address of data");
  }
  std::vector<uint64_t> sizes;
  for (unsigned i = 0; i < dimensions; ++i) {
    sizes.push_back(reader.read<uint32_t>("sizes of a layout"));
  }
  if (layout.kind == Layout::Kind::kCompact) {
    layout.length = reader.read<uint32_t>("size of data");
    layout.address = message_address + reader.offset();
    reader.take(layout.length, "compact data");
  } else if (layout.kind == Layout::Kind::kChunked) {
    // The last size is that of a cell, or follows.
    if (dimensions != rank + 1) {
      throw CorruptData(concat("chunks have ", dimensions, " sizes, the array has ", rank));
    }
    sizes.pop_back();
    layout.chunk_shape = std::move(sizes);
  } else {
    layout.length = cell_bytes;
    for (const uint64_t size : sizes) {
      if (__builtin_mul_overflow(layout.length, size, &layout.length)) {
        throw CorruptData("an array of more bytes than can be counted");
      }
    }
  }
  return layout;
}

void read_chunk_index(const File& file, ByteReader& reader, Layout& layout) {
  constexpr uint8_t kSingleFiltered = 0x02, kUnfilteredEdges = 0x01;
  const auto flags = reader.read<uint8_t>("flags of chunks");
  const auto dimensions = reader.read<uint8_t>("dimensions of chunks");
  const auto size_bytes = reader.read<uint8_t>("sizes of chunks");
  if (size_bytes == 0 || size_bytes > 8) {
    throw CorruptData(concat("sizes of chunks have 1 to 8 bytes, not ", unsigned{size_bytes}));
  }
  for (unsigned i = 0; i < dimensions; ++i) {
    layout.chunk_shape.push_back(read_number(reader, size_bytes, "sizes of chunks"));
  }
  if (dimensions == 0) throw CorruptData("chunks without a size");
  layout.chunk_shape.pop_back();  // the size of a cell
  layout.unfiltered_edges = (flags & kUnfilteredEdges) != 0;
  const auto index = reader.read<uint8_t>("index of chunks");
  switch (index) {
    case 1:
      layout.single_filtered = (flags & kSingleFiltered) != 0;
      if (layout.single_filtered) {
        layout.single_bytes = file.read_length(reader, "size of the chunk");
        layout.single_mask = reader.read<uint32_t>("filter mask");
      }
      break;
    case 2:
      break;
    case 3:
      reader.skip(1, "index of chunks");
      break;
    case 4:
      reader.skip(5, "index of chunks");
      break;
    case 5:
      reader.skip(6, "index of chunks");
      break;
    default:
      throw Unsupported(concat("a chunk index of type ", unsigned{index}, " is not read"));
  }
  layout.index = static_cast<ChunkIndexType>(index);
  layout.address = file.read_address(reader, "index of chunks");
}

}  // namespace

Dataspace read_dataspace(const File& file, ByteReader& reader) {
  const uint8_t version = read_version(reader, 1, 2, "a dataspace");
  Dataspace space;
  const auto rank = reader.read<uint8_t>("number of dimensions");
  const auto flags = reader.read<uint8_t>("flags of a dataspace");
  if (version == 1) {
    reader.skip(5, "dataspace");
  } else {
    space.is_null = reader.read<uint8_t>("type of a dataspace") == 2;
  }
  if (rank > kMostRank) throw CorruptData(concat("an array of ", unsigned{rank}, " dimensions"));
  for (unsigned i = 0; i < rank; ++i) space.shape.push_back(file.read_length(reader, "shape"));
  space.most_shape = space.shape;
  if ((flags & 0x01) == 0) return space;
  const uint64_t unlimited = ~uint64_t{0} >> (64 - 8 * file.length_bytes());
  for (unsigned i = 0; i < rank; ++i) {
    const uint64_t most = file.read_length(reader, "largest shape");
    space.most_shape[i] = most == unlimited ? Dataspace::kUnlimited : most;
  }
  return space;
}

std::vector<std::byte> read_fill_value(const ObjectHeader& header) {
  const auto bytes_of = [](ByteReader& reader) {
    const auto length = reader.read<uint32_t>("size of a fill value");
    const auto bytes = reader.take(length, "fill value");
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  if (const Message* const message = header.find(MessageType::kFillValue)) {
    ByteReader reader(message->body);
    const uint8_t version = read_version(reader, 1, 3, "a fill value");
    if (version == 3) {
      constexpr uint8_t kDefined = 0x20;
      const auto flags = reader.read<uint8_t>("flags of a fill value");
      return (flags & kDefined) != 0 ? bytes_of(reader) : std::vector<std::byte>();
    }
    reader.skip(2, "fill value");
    const auto defined = reader.read<uint8_t>("fill value");
    return version == 1 || defined != 0 ? bytes_of(reader) : std::vector<std::byte>();
  }
  if (const Message* const message = header.find(MessageType::kOldFillValue)) {
    ByteReader reader(message->body);
    return bytes_of(reader);
  }
  return {};
}

codec::ChunkPipeline read_filters(ByteReader& reader, uint32_t cell_bytes) {
  constexpr uint16_t kFirstNamed = 256;
  const uint8_t version = read_version(reader, 1, 2, "a filter pipeline");
  const auto count = reader.read<uint8_t>("number of filters");
  if (version == 1) reader.skip(6, "filters");
  if (count > 32) throw CorruptData(concat("a pipeline of ", unsigned{count}, " filters"));
  std::vector<codec::ChunkFilter> filters;
  for (unsigned i = 0; i < count; ++i) {
    const auto id = reader.read<uint16_t>("filter");
    const bool named = version == 1 || id >= kFirstNamed;
    const uint64_t name_bytes = named ? reader.read<uint16_t>("length of a filter's name") : 0;
    reader.skip(2, "flags of a filter");
    const auto values = reader.read<uint16_t>("number of a filter's values");
    reader.skip(version == 1 ? (name_bytes + 7) / 8 * 8 : name_bytes, "name of a filter");
    reader.expect_items(values, sizeof(uint32_t), "values of a filter");
    std::vector<uint32_t> settings;
    for (unsigned k = 0; k < values; ++k) {
      settings.push_back(reader.read<uint32_t>("values of a filter"));
    }
    if (version == 1 && values % 2 == 1) reader.skip(sizeof(uint32_t), "values of a filter");
    filters.push_back(filter_of(id, settings, cell_bytes));
  }
  return codec::ChunkPipeline(std::move(filters));
}

Layout read_layout(const File& file, const Message& message, size_t rank, uint32_t cell_bytes) {
  ByteReader reader(message.body);
  const uint8_t version = read_version(reader, 1, 5, "a layout");
  if (version < 3) return read_old_layout(file, reader, message.address, rank, cell_bytes);
  Layout layout;
  layout.wide_sizes = version == 5;
  const auto kind = reader.read<uint8_t>("class of a layout");
  switch (kind) {
    case 0:
      layout.kind = Layout::Kind::kCompact;
      layout.length = reader.read<uint16_t>("size of data");
      layout.address = message.address + reader.offset();
      reader.take(layout.length, "compact data");
      return layout;
    case 1:
      layout.kind = Layout::Kind::kContiguous;
      layout.address = file.read_address(reader, "address of data");
      layout.length = file.read_length(reader, "size of data");
      return layout;
    case 2:
      break;
    case 3:
      throw Unsupported(
          "a virtual dataset, whose values lie in other files, is not read; open those files, or "
          "write the file again with anndata");
    default:
      throw Unsupported(concat("a layout of class ", unsigned{kind}, " is not read"));
  }
  layout.kind = Layout::Kind::kChunked;
  if (version == 3) {
    const auto dimensions = reader.read<uint8_t>("dimensions of chunks");
    layout.address = file.read_address(reader, "index of chunks");
    for (unsigned i = 0; i < dimensions; ++i) {
      layout.chunk_shape.push_back(reader.read<uint32_t>("sizes of chunks"));
    }
    if (dimensions == 0) throw CorruptData("chunks without a size");
    layout.chunk_shape.pop_back();  // the size of a cell
  } else {
    read_chunk_index(file, reader, layout);
  }
  if (layout.chunk_shape.size() != rank) {
    throw CorruptData(
        concat("chunks have ", layout.chunk_shape.size(), " sizes, the array has ", rank));
  }
  return layout;
}

}  // namespace penstock::format::hdf5
