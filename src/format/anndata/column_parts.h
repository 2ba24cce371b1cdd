#pragma once

#include <penstock/table.h>

#include <memory>
#include <string>

#include "base/memory/buffer.h"
#include "format/chunked/array.h"
#include "format/chunked/read_array.h"

// Columns from stored arrays, whatever form a table is stored in.

namespace penstock::format::anndata {

/// All values of an array as categories. Throws CorruptData if one comes twice.
std::shared_ptr<const Categories> read_categories(const chunked::Array& stored, bool ordered,
                                                  unsigned threads);

/// A column `name` of codes into categories. -1 is a missing value. Throws CorruptData, with
/// `place`, for another code without a category.
Column coded_column(const Buffer& codes, DataType code_type,
                    std::shared_ptr<const Categories> categories, const std::string& name,
                    const std::string& place);

void put_strings(chunked::Strings&& strings, Column& column);
void put_values(const Buffer& values, Column& column);

}  // namespace penstock::format::anndata
