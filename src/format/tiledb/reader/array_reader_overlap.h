#pragma once

#include <penstock/table.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"

// Finds cells of a sparse array without duplicates that another cell of the same coordinates
// replaces. The newest wins (by its own timestamp, or its fragment's first). Ties go to the later
// fragment, and within a fragment to the first cell. Source:
// tiledb/sm/query/readers/sparse_global_order_reader.cc, misc/comparators.h.

namespace penstock::format::tiledb {

/// By fragment and tile: 1 for each replaced cell. Tiles without replaced cells are absent.
using ReplacedCells = std::map<std::pair<size_t, uint64_t>, std::vector<uint8_t>>;

/// Compares the coordinates of the fragments that `overlapping` marks, in tiles that touch another
/// such fragment (or have their own timestamps). `fragments` oldest first. Needs about 100 bytes
/// for each compared cell while it runs.
ReplacedCells find_replaced_cells(const io::Store& store, const ArraySchema& schema,
                                  std::span<const std::shared_ptr<FragmentMetadata>> fragments,
                                  std::span<const uint8_t> overlapping, const TimeRange& range,
                                  unsigned threads);

}  // namespace penstock::format::tiledb
