#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

// Rows of columns picked, dropped, joined; codes narrowed; strings turned to codes. Pure functions
// over values: safe from any thread, cost one pass over what they move.

namespace penstock::table {

/// Bytes of a row: of a value, a code; 0 for variable-length columns.
size_t row_bytes(const Column& column);

/// A column with the name, types and categories of `like` and no rows.
Column empty_like(const Column& like);

/// Rows with mask[i] != 0, in order. mask.size() rows.
Column filter_rows(const Column& column, std::span<const uint8_t> mask);
Table filter_rows(const Table& table, std::span<const uint8_t> mask);

/// Rows at `positions`, in that order; each below size(), else Internal.
Column take_rows(const Column& column, std::span<const uint64_t> positions);
Table take_rows(const Table& table, std::span<const uint64_t> positions);

/// The parts one behind the other; at least one. Parts that share categories keep them, coded
/// string columns with several categories get their union, in order of first appearance. Parts are
/// emptied on the way, so that the whole is not held twice. Parts of different types are Internal.
Column concatenate(std::vector<Column>&& parts);
Table concatenate(std::vector<Table>&& parts);

/// Turns a string column to codes into its distinct values, in order of first appearance. Leaves it
/// as it is when more than one row in two is distinct (then codes save nothing).
void encode_strings(Column& column);

/// The other way: strings again instead of codes. Columns without codes stay what they are.
void decode_strings(Column& column);

/// Makes codes int8, int16 or int32, the narrowest signed type that holds all categories. Codes of
/// null rows become -1. A valid row's code that no category has is CorruptData.
void narrow_codes(Column& column);

/// The narrowest signed integer type for codes into `count` categories.
DataType code_type_for(size_t count);

}  // namespace penstock::table
