#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/tiledb/schema/array_schema.h"
#include "format/tiledb/schema/nd_range.h"
#include "io/store.h"

// The footer of a fragment's metadata: what the fragment covers, the sizes of its files, and where
// in __fragment_metadata.tdb the R-tree and the per-field lists start. Source:
// format_spec/fragment.md, Footer, for formats 10 (TileDB 2.4) to 23; older ones are `Unsupported`.
//
// A plain value, parsed once. Lists are indexed by the fragment's field index: attributes in order,
// one unused place (zipped coordinates before format 5), dimensions, then t, dt and dci if present.

namespace penstock::format::tiledb {

struct FragmentFooter {
  uint32_t format_version = 0;
  ArraySchemaPtr schema;
  bool dense = false;
  NDRange non_empty_domain;  ///< empty when the fragment has no cells
  uint64_t tile_count = 0;
  uint64_t cells_per_tile = 0;
  uint64_t last_tile_cells = 0;  ///< sparse only
  bool has_timestamps = false;
  bool has_delete_metadata = false;

  size_t field_count = 0;
  std::vector<uint64_t> file_bytes;           ///< by field: a0.tdb
  std::vector<uint64_t> file_var_bytes;       ///< a0_var.tdb
  std::vector<uint64_t> file_validity_bytes;  ///< a0_validity.tdb

  /// Offsets of generic tiles in __fragment_metadata.tdb.
  uint64_t rtree_offset = 0;
  std::vector<uint64_t> tile_offsets_offset;
  std::vector<uint64_t> tile_var_offsets_offset;
  std::vector<uint64_t> tile_var_sizes_offset;
  std::vector<uint64_t> tile_validity_offsets_offset;
  uint64_t processed_conditions_offset = 0;  ///< 0 before format 16
  /// Offsets of tile minima, maxima, sums and null counts: not used, but they end the lists before
  /// them.
  std::vector<uint64_t> unused_offsets;

  /// Parses the footer at the reader's position; more bytes may follow. The footer names its
  /// schema.
  static FragmentFooter parse(ByteReader& reader, const ArraySchemas& schemas);
};

/// Reads the footer at the end of a fragment's metadata file.
FragmentFooter read_fragment_footer(const io::Store& store, const std::string& path,
                                    const ArraySchemas& schemas);

}  // namespace penstock::format::tiledb
