#include "format/row_file/record_unpacker.h"

#include <penstock/error.h>

#include <cstring>
#include <vector>

#include "format/check_columns.h"
#include "kernel/pack_row.h"

namespace penstock::format::pack {
namespace {

std::vector<uint32_t> stored_among(std::span<const int64_t> columns, uint64_t stored_columns,
                                   int64_t column_domain_end) {
  check_columns(columns, column_domain_end);
  std::vector<uint32_t> stored;
  for (const int64_t column : columns) {
    if (static_cast<uint64_t>(column) < stored_columns) {
      stored.push_back(static_cast<uint32_t>(column));
    }
  }
  return stored;
}

}  // namespace

RecordUnpacker::RecordUnpacker(uint64_t stored_columns, int64_t column_domain_end,
                               DataType value_type, std::span<const int64_t> columns)
    : decoder_(kernel::make_row_layout(stored_columns, value_type), stored_columns),
      choice_(stored_among(columns, stored_columns, column_domain_end),
              static_cast<uint32_t>(stored_columns)),
      layout_(kernel::make_row_layout(columns.size(), value_type)),
      all_columns_(choice_.all() && layout_.index_bytes == decoder_.layout().index_bytes) {}

void RecordUnpacker::check(std::span<const std::byte> stored) const {
  if (!decoder_.intact(stored)) throw CorruptData("the checksum of the row does not fit it");
}

RowShape RecordUnpacker::unpack(std::span<const std::byte> stored, const RowShape& shape,
                                std::byte* destination) const {
  if (all_columns_) {
    decoder_.decode(stored, shape, destination);
    return shape;
  }
  thread_local std::vector<uint64_t> row;  // aligned
  const size_t words = most_bytes(shape) / sizeof(uint64_t);
  if (row.size() < words) row.resize(words);
  auto* const whole = reinterpret_cast<std::byte*>(row.data());
  decoder_.decode(stored, shape, whole);
  return choose(shape, whole, destination);
}

RowShape RecordUnpacker::choose(const RowShape& shape, const std::byte* whole,
                                std::byte* destination) const {
  if (all_columns_) {
    std::memcpy(destination, whole, most_bytes(shape));
    return shape;
  }
  const auto selected =
      kernel::select_columns(decoder_.layout(), whole, choice_, layout_, destination);
  return {selected.nnz, selected.wide_count};
}

}  // namespace penstock::format::pack
