#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codec/chunk/chunk_pipeline.h"
#include "format/hdf5/file.h"
#include "format/hdf5/object/datatype.h"
#include "format/hdf5/object/object_header.h"

// The messages that describe an array. Source: HDF5 File Format Specification, IV.A.2.

namespace penstock::format::hdf5 {

struct Dataspace {
  static constexpr uint64_t kUnlimited = ~uint64_t{0};
  bool is_null = false;              ///< no cells at all
  std::vector<uint64_t> shape;       ///< empty: one cell
  std::vector<uint64_t> most_shape;  ///< kUnlimited where it can grow
};

Dataspace read_dataspace(const File& file, ByteReader& reader);

/// The bytes of the fill value in the stored type; none if it is not set, which means zeros.
std::vector<std::byte> read_fill_value(const ObjectHeader& header);

/// Filters in the order in which they were applied. `cell_bytes`: of a cell. Throws Unsupported,
/// with the name of a filter that is not read.
codec::ChunkPipeline read_filters(ByteReader& reader, uint32_t cell_bytes);

/// How the chunks of an array are found.
enum class ChunkIndexType : uint8_t {
  kSingle = 1,
  kImplicit = 2,
  kFixedArray = 3,
  kExtensibleArray = 4,
  kBTree2 = 5,
  kBTree1 = 255,  ///< layouts up to version 3
};

struct Layout {
  enum class Kind : uint8_t { kCompact, kContiguous, kChunked };

  Kind kind = Kind::kContiguous;
  uint64_t address = 0;  ///< of the data or the index; undefined if nothing is stored
  uint64_t length = 0;   ///< of data that are not chunked
  // Of chunks:
  std::vector<uint64_t> chunk_shape;
  ChunkIndexType index = ChunkIndexType::kBTree1;
  bool unfiltered_edges = false;  ///< chunks that the shape cuts are stored without filters
  bool wide_sizes = false;        ///< sizes of filtered chunks have 8 bytes (version 5)
  bool single_filtered = false;   ///< the only chunk has a size and a mask of its own:
  uint64_t single_bytes = 0;
  uint32_t single_mask = 0;
};

/// `cell_bytes`: of the datatype. Throws CorruptData, or Unsupported for virtual and other layouts.
Layout read_layout(const File& file, const Message& message, size_t rank, uint32_t cell_bytes);

}  // namespace penstock::format::hdf5
