#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "format/cells/code_values.h"
#include "format/cells/column_map.h"
#include "kernel/packed_row.h"

// Decoded elements of some rows of a CSR matrix -> what a packed row needs: chosen columns in
// ascending order, one-byte codes, and the wide values of the row.
//
//   CsrElements elements;                     filled by the decode of chunks
//   finish_rows(elements, context, rows…);    in place; different rows at the same time
//   pack_csr_row(…)                           copies
//
// Elements are staged as column ids of 2 or 4 bytes and codes of one byte. Values without a code
// are in the segments: one for each decoded piece of data. If most values of a segment have no code
// (normalized layers), the segment is raw: it keeps all values in the stored type.
//
// Duplicates of a column stay, in their stored order.

namespace penstock::format {

/// The values of consecutive elements that have no code.
struct CsrSegment {
  uint64_t begin = 0, end = 0;  ///< elements, counted from the first staged one
  CellEscapes escapes;          ///< cells are counted from the first staged element too
  bool raw = false;
  Buffer values;  ///< of all elements, if raw
};

/// The staged elements of a unit. Ids and codes have kStageSlack bytes behind them.
struct CsrElements {
  uint8_t id_bytes = 2;  ///< 2 or 4
  Buffer ids;
  Buffer codes;
  std::vector<CsrSegment> segments;  ///< ascending; holes are elements that are not read
};

/// A finished row. Its output columns and codes lie in CsrElements from `begin` on; columns have
/// the row layout's width from byte begin * id_bytes on.
struct CsrRow {
  uint64_t begin = 0;
  uint32_t stored = 0;      ///< elements, before the choice of columns
  uint32_t nnz = 0;         ///< elements that stay
  uint32_t wide_count = 0;  ///< as in kernel::PackedRowHeader
  uint64_t wide_begin = 0;  ///< byte in the wide values of the row's task
};

struct CsrRowContext {
  const ColumnMap& columns;
  const kernel::PackedRowLayout& layout;
  bool all_columns = false;  ///< output column = stored column
};

/// Chooses columns, sorts if need be and collects wide values. `begin` and `stored` of the rows are
/// set, ascending. Appends to `wide`.
void finish_rows(CsrElements& elements, const CsrRowContext& context, std::span<CsrRow> rows,
                 std::vector<std::byte>& wide);

/// Writes the record of a finished row. `wide`: the wide values of its task.
void pack_csr_row(const CsrElements& elements, const kernel::PackedRowLayout& layout,
                  const CsrRow& row, std::span<const std::byte> wide, std::byte* destination);

}  // namespace penstock::format
