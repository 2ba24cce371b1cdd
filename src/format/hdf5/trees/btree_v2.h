#pragma once

#include <cstdint>
#include <functional>

#include "format/hdf5/file.h"

// The newer B-tree: of dense links and attributes, huge objects of a heap, and chunks. Source:
// HDF5 File Format Specification, III.A.2.

namespace penstock::format::hdf5 {

enum class BTree2Type : uint8_t {
  kHugeObjects = 1,
  kLinkNames = 5,
  kAttributeNames = 8,
  kChunks = 10,
  kFilteredChunks = 11,
};

/// Calls `visit(record)` for every record, in order. Throws CorruptData if the tree is of another
/// type or its records have fewer than `least_record_bytes`.
void walk_btree_v2(const File& file, uint64_t header, BTree2Type type, size_t least_record_bytes,
                   const std::function<void(ByteReader& record)>& visit);

}  // namespace penstock::format::hdf5
