#include "format/tiledb/schema/nd_range.h"

#include "base/concat.h"
#include "format/tiledb/schema/array_schema.h"

namespace penstock::format::tiledb {

NDRange read_nd_range(ByteReader& reader, std::span<const Dimension> dimensions) {
  NDRange box;
  box.reserve(dimensions.size());
  for (const Dimension& dimension : dimensions) {
    uint64_t length = 0;
    Range range;
    if (dimension.var_length()) {
      length = reader.read<uint64_t>("range length");
      range.min_bytes = reader.read<uint64_t>("range minimum length");
      if (range.min_bytes > length) {
        throw CorruptData(concat("range minimum of ", range.min_bytes,
                                 " bytes is longer than the range of ", length));
      }
    } else {
      range.min_bytes = dimension.cell_bytes();
      length = 2 * range.min_bytes;
    }
    const auto bytes = reader.take(length, "range");
    range.bytes.assign(bytes.begin(), bytes.end());
    box.push_back(std::move(range));
  }
  return box;
}

}  // namespace penstock::format::tiledb
