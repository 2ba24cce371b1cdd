#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/buffer.h"
#include "format/chunked/array.h"

// Reads whole ranges of 1-D arrays: columns of tables, indptr. Chunks are fetched together and
// decoded by `threads` threads (0: as many as cores) that end with the call.

namespace penstock::format::chunked {

/// Values [begin, end) of a 1-D array of fixed-size cells, little-endian, in memory order.
/// Throws InvalidArgument for a range outside the array or an array that has not one dimension,
/// CorruptData for damage, each with the array's path.
Buffer read_values(const Array& array, uint64_t begin, uint64_t end, unsigned threads);

/// Strings [begin, end) of a 1-D array of strings, any StringForm, as UTF-8.
Strings read_strings(const Array& array, uint64_t begin, uint64_t end, unsigned threads);

}  // namespace penstock::format::chunked
