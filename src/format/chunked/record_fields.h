#pragma once

#include <cstdint>

#include "base/memory/buffer.h"
#include "format/chunked/array.h"
#include "format/chunked/read_array.h"

// Columns of a 1-D array of records, as numpy's structured arrays are stored. Tables of anndata
// before 0.7 are such arrays. All records of the range are decoded for each field.

namespace penstock::format::chunked {

/// Values [begin, end) of a field that is no string, little-endian.
Buffer read_field(const Array& records, const RecordField& field, uint64_t begin, uint64_t end,
                  unsigned threads);

/// Strings [begin, end) of a field of strings, as UTF-8.
Strings read_string_field(const Array& records, const RecordField& field, uint64_t begin,
                          uint64_t end, unsigned threads);

}  // namespace penstock::format::chunked
