#include "format/cells/dense_block.h"

#include <cstring>
#include <span>
#include <type_traits>

#include "base/checked.h"
#include "kernel/pack_row.h"

namespace penstock::format {
namespace {

/// The non-zero cells of a row: columns, and values one behind another.
struct NonZeros {
  std::vector<uint32_t> indices;
  std::vector<std::byte> values;
};

// Every cell is written, but the place advances only after a non-zero: no branch to mispredict.
template <typename Bits>
void find_nonzeros(const std::byte* cells, size_t count, NonZeros& out) {
  out.indices.resize(count + 1);
  out.values.resize((count + 1) * sizeof(Bits));
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, cells + i * sizeof(Bits), sizeof(Bits));
    out.indices[kept] = static_cast<uint32_t>(i);
    std::memcpy(out.values.data() + kept * sizeof(Bits), &bits, sizeof(Bits));
    kept += bits != 0;
  }
  out.indices.resize(kept);
  out.values.resize(kept * sizeof(Bits));
}

void find_nonzeros(const std::byte* cells, size_t count, size_t value_bytes, NonZeros& out) {
  switch (value_bytes) {
    case 1:
      return find_nonzeros<uint8_t>(cells, count, out);
    case 2:
      return find_nonzeros<uint16_t>(cells, count, out);
    case 4:
      return find_nonzeros<uint32_t>(cells, count, out);
    default:
      return find_nonzeros<uint64_t>(cells, count, out);
  }
}

}  // namespace

void DenseBlock::resize(size_t rows, size_t columns, const kernel::PackedRowLayout& layout) {
  layout_ = layout;
  columns_ = columns;
  nnz_.assign(rows, 0);
  wide_.assign(rows, 0);
  cells_.resize_discard(checked_mul<size_t>(rows * layout.value_bytes, columns, "rows of a unit"));
}

void DenseBlock::count(size_t begin, size_t end) {
  if (columns_ == 0) return;
  NonZeros found;
  for (size_t row = begin; row < end; ++row) {
    find_nonzeros(cell(row, 0), columns_, layout_.value_bytes, found);
    nnz_[row] = static_cast<uint32_t>(found.indices.size());
    wide_[row] = kernel::choose_wide_count(layout_, found.values.data(), nnz_[row]);
  }
}

void DenseBlock::pack(size_t row, std::byte* destination) const {
  thread_local NonZeros found;
  found.indices.clear();
  found.values.clear();
  if (columns_ != 0) {
    find_nonzeros(cells_.data() + row * columns_ * layout_.value_bytes, columns_,
                  layout_.value_bytes, found);
  }
  kernel::pack_row(layout_, std::span<const uint32_t>(found.indices), found.values.data(),
                   wide_[row], destination);
}

}  // namespace penstock::format
