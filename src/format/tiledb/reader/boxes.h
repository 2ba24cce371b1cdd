#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <span>

#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/schema/array_schema.h"
#include "format/tiledb/schema/nd_range.h"

// Relations between boxes (of fragments, tiles, the current domain) and cells, for coordinates of
// any type. Strings compare as bytes. Free functions; safe from any thread.

namespace penstock::format::tiledb {

/// Whether two boxes share a coordinate; an empty box shares none with any.
bool boxes_overlap(std::span<const Dimension> dimensions, const NDRange& a, const NDRange& b);

/// Whether `inner` lies in `outer`; neither is empty.
bool box_contains(std::span<const Dimension> dimensions, const NDRange& outer,
                  const NDRange& inner);

/// Whether tile `tile` may hold a coordinate of `box`. The fragment's tile bounds must be loaded.
bool tile_touches(const FragmentMetadata& fragment, std::span<const Dimension> dimensions,
                  uint64_t tile, const NDRange& box);

/// Sets keep[i] to 0 if cell i of a dimension's `coordinates` lies outside `range`.
void drop_outside(const Dimension& dimension, const Range& range, const Column& coordinates,
                  std::span<uint8_t> keep);

}  // namespace penstock::format::tiledb
