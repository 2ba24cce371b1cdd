#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "format/row_file/row_record.h"
#include "kernel/pack_row.h"
#include "kernel/unpack_row.h"

// An input is a value type, the kind of column count, and a record, whose checksum need not match.
// If a record decodes, it must be a valid packed row, the same by either path.

namespace {

using namespace penstock;
using namespace penstock::format::pack;

constexpr uint64_t kColumnCounts[] = {1, 300, 65535, 65536, 65537, 2000000};
constexpr size_t kMostRow = 16 << 20;

std::vector<std::byte> decoded(const RowDecoder& decoder, std::span<const std::byte> record) {
  try {
    const RowShape shape = decoder.shape(record);
    const size_t bytes = decoder.layout().record_bytes(shape.nnz, shape.wide_count);
    if (bytes > kMostRow) return {};
    std::vector<std::byte> row(bytes);
    decoder.decode(record, shape, row.data());
    return row;
  } catch (const CorruptData&) {
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kInt8,
                                 DataType::kUInt8,   DataType::kInt16,   DataType::kUInt32,
                                 DataType::kInt64};
  const DataType type = kTypes[data[0] % std::size(kTypes)];
  const uint64_t columns = kColumnCounts[data[1] % std::size(kColumnCounts)];
  std::vector<std::byte> bytes(size - 2 + kRecordSlack);
  std::memcpy(bytes.data(), data + 2, size - 2);
  const auto record = std::span<const std::byte>(bytes).first(size - 2);

  const auto layout = kernel::make_row_layout(columns, type);
  const auto row = decoded(RowDecoder(layout, columns), record);
  if (row != decoded(RowDecoder(layout, columns, VectorPath::kScalar), record)) __builtin_trap();
  if (row.empty()) return 0;
  const auto view = kernel::PackedRowView::of(row.data(), layout);
  uint32_t least = 0;
  uint32_t escapes = 0;
  for (uint32_t i = 0; i < view.nnz; ++i) {
    const uint32_t column = kernel::entry_column(view, layout, i);
    if (column < least || column >= columns) __builtin_trap();
    least = column;
    escapes += view.codes != nullptr && view.codes[i] == 255 ? 1U : 0U;
  }
  if (view.codes != nullptr && escapes != view.wide_count) __builtin_trap();
  return 0;
}
