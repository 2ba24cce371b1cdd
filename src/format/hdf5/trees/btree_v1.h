#pragma once

#include <cstdint>
#include <functional>

#include "format/hdf5/file.h"

// The older B-tree: of the members of a group, or of the chunks of an array. Source: HDF5 File
// Format Specification, III.A.1.

namespace penstock::format::hdf5 {

enum class BTree1Type : uint8_t { kGroup = 0, kChunks = 1 };

/// Calls `leaf(key, child)` for every entry of the lowest level, in order: the bytes of the key
/// before the child, and its address. Nodes of a level are read together. `key_bytes`: of a key.
void walk_btree_v1(const File& file, uint64_t root, BTree1Type type, size_t key_bytes,
                   const std::function<void(ByteReader& key, uint64_t child)>& leaf);

}  // namespace penstock::format::hdf5
