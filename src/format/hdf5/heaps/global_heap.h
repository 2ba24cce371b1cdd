#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "format/chunked/array.h"
#include "format/hdf5/file.h"

// Global heaps: where strings of variable length lie. A cell refers to one by length, address of a
// collection and number in it. Source: HDF5 File Format Specification, III.E and VIII.

namespace penstock::format::hdf5 {

/// Bytes of a reference.
size_t heap_reference_bytes(const File& file);

struct HeapReference {
  uint32_t length = 0;
  uint64_t collection = 0;  ///< 0: an empty string
  uint32_t number = 0;
};

HeapReference read_heap_reference(const File& file, ByteReader& reader);

/// A collection that was read, and where its objects lie in it.
class HeapCollection {
 public:
  HeapCollection(const File& file, uint64_t address);
  uint64_t size_bytes() const noexcept { return bytes_.size(); }
  /// Throws CorruptData if there is no such object, or it is shorter than `length`.
  std::span<const std::byte> find(const HeapReference& reference) const;

 private:
  Buffer bytes_;
  std::map<uint32_t, std::span<const std::byte>> objects_;
};

/// The strings of cells that are references. Throws CorruptData for what is not UTF-8.
chunked::Strings read_heap_strings(const File& file, std::span<const std::byte> cells,
                                   unsigned threads);

}  // namespace penstock::format::hdf5
