#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <span>

#include "codec/tile/filter_pipeline.h"
#include "format/tiledb/condition/condition_evaluation.h"
#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/schema/array_schema.h"
#include "io/store.h"

// Tiles of one field as a column: stored bytes are fetched in few long reads, decoded, and checked
// against the fragment's cell counts. Free functions; safe from any thread.

namespace penstock::format::tiledb {

/// True for cells that become a variable-length column: strings, bytes, and cells of several
/// values.
bool has_variable_cells(DataType type, uint32_t cell_val_num);

/// Returns an empty column of the right form for a field, without categories.
Column empty_column(const std::string& name, DataType type, uint32_t cell_val_num);

/// Cells of `tiles` (ascending), concatenated. Codes stay plain integers. Loads the tile offsets of
/// the field if needed.
Column read_cells(const io::Store& store, FragmentMetadata& fragment, const FragmentField& field,
                  std::span<const uint64_t> tiles, codec::DecodeScratch& scratch);

/// Returns `count` cells with an attribute's fill value.
Column fill_cells(const Attribute& attribute, uint64_t count);

/// A column's cells as views.
FieldCells view_cells(const Column& column);

/// Returns the sum of the cells of `tiles`. Throws `CorruptData` if a column cannot hold so many.
uint64_t count_cells(const FragmentMetadata& fragment, std::span<const uint64_t> tiles);

}  // namespace penstock::format::tiledb
