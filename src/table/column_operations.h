#pragma once

#include <penstock/table.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

// Filters, takes and joins rows of columns, narrows codes, and converts strings to codes and back.
// Pure functions: safe from any thread, at the cost of one pass over the moved values.

namespace penstock::table {

/// Bytes of a value or code; 0 for variable-length columns.
size_t row_bytes(const Column& column);

/// A column with the name, types and categories of `like` and no rows.
Column empty_like(const Column& like);

/// Rows with mask[i] != 0, in order. The mask has one entry a row.
Column filter_rows(const Column& column, std::span<const uint8_t> mask);
Table filter_rows(const Table& table, std::span<const uint8_t> mask);

/// Rows at `positions`, in that order. Throws Internal for a position at or past size().
Column take_rows(const Column& column, std::span<const uint64_t> positions);
Table take_rows(const Table& table, std::span<const uint64_t> positions);

/// Concatenates one or more parts. Parts that share categories keep them. Coded string columns with
/// different categories get the union, in order of first appearance. Parts are emptied along the
/// way, so that the whole is not held twice. Throws Internal for parts of different types.
Column concatenate(std::vector<Column>&& parts);
Table concatenate(std::vector<Table>&& parts);

/// Converts a string column to codes into its distinct values, in order of first appearance. If
/// more than half of the rows are distinct, codes save nothing and the column stays as it is.
void encode_strings(Column& column);

/// Converts codes back to strings. Columns without codes stay as they are.
void decode_strings(Column& column);

/// Converts codes to the narrowest of int8, int16 and int32 that holds all categories. Codes of
/// null rows become -1. Throws CorruptData for a valid row's code without a category.
void narrow_codes(Column& column);

/// The narrowest signed integer type for codes into `count` categories.
DataType code_type_for(size_t count);

}  // namespace penstock::table
