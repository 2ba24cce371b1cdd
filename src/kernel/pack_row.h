#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/vector_path.h"
#include "kernel/packed_row.h"

// Writes packed rows (packed_row.h).
//
//   const auto layout = make_row_layout(columns, type);
//   const uint32_t wide = choose_wide_count(layout, values, nnz);      form and number of escapes
//   pack_row(layout, indices, values, wide, destination);      writes record_bytes(nnz, wide) bytes
//
// Stateless; any thread.

namespace penstock::kernel {

/// Throws Unsupported unless `value_type` is a number.
PackedRowLayout make_row_layout(uint64_t column_count, DataType value_type);

/// Number of escapes of the row, or kRawRow if that form is smaller.
uint32_t choose_wide_count(const PackedRowLayout& layout, const std::byte* values, uint32_t nnz,
                           VectorPath path = best_vector_path());

/// Writes the codes of `nnz` values: kEscapeCode if a value is -0.0 or not an integer in 0 … 254.
/// Returns the number of escapes.
uint32_t encode_values(DataType type, const std::byte* values, uint32_t nnz, uint8_t* codes,
                       VectorPath path = best_vector_path());

/// `wide_count` must come from choose_wide_count. Indices must fit layout.index_bytes.
void pack_row(const PackedRowLayout& layout, std::span<const uint32_t> indices,
              const std::byte* values, uint32_t wide_count, std::byte* destination,
              VectorPath path = best_vector_path());
void pack_row(const PackedRowLayout& layout, std::span<const uint16_t> indices,
              const std::byte* values, uint32_t wide_count, std::byte* destination,
              VectorPath path = best_vector_path());

}  // namespace penstock::kernel
